// SPDX-License-Identifier: Apache-2.0
#include "daso/record/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <string_view>
#include <vector>

#include "daso/base/error.h"
#include "daso/comm/network.h"

// The messages are those of TensorFlow's event.proto, summary.proto and histogram.proto in the
// encoding of Protocol Buffers, which is little-endian as the records around them are.
namespace daso {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied into the file");

constexpr std::size_t kFlushAt = std::size_t{1} << 16U;  // bytes
constexpr mode_t kReadableByAll = 0666;                  // less the umask

template <typename Number>
void append(std::string& bytes, Number number) {
  const auto raw = std::bit_cast<std::array<char, sizeof(Number)>>(number);
  bytes.append(raw.data(), raw.size());
}

// A message in the making.
class Message {
 public:
  const std::string& bytes() const { return bytes_; }

  void integer(unsigned field, std::int64_t value) {
    key(field, /*wire_type=*/0);
    varint(static_cast<std::uint64_t>(value));
  }
  void number(unsigned field, double value) {
    key(field, /*wire_type=*/1);
    append(bytes_, value);
  }
  void text(unsigned field, std::string_view value) {
    key(field, /*wire_type=*/2);
    varint(value.size());
    bytes_ += value;
  }
  void message(unsigned field, const Message& value) { text(field, value.bytes_); }
  void numbers(unsigned field, const std::vector<double>& values) {
    key(field, /*wire_type=*/2);
    varint(values.size() * sizeof(double));
    for (const double value : values) append(bytes_, value);
  }
  void short_number(unsigned field, float value) {
    key(field, /*wire_type=*/5);
    append(bytes_, value);
  }

 private:
  void key(unsigned field, unsigned wire_type) { varint(field << 3U | wire_type); }

  // Seven bits a byte, the lowest first; the eighth says that more follow.
  void varint(std::uint64_t value) {
    for (; value >= 0x80U; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message event_at(std::int64_t step) {
  Message event;
  event.number(1, unix_seconds());
  event.integer(2, step);
  return event;
}

Message event_of(Message& value, std::int64_t step, const std::string& tag) {
  value.text(1, tag);
  Message summary;
  summary.message(1, value);
  Message event = event_at(step);
  event.message(5, summary);
  return event;
}

// Where TensorBoard's own buckets end: 1e-12 and so on by tenths up to 1e20, the same below zero,
// and zero. A value belongs to the first limit that is above it.
std::vector<double> bucket_limits() {
  std::vector<double> above;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) above.push_back(limit);
  above.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  std::transform(above.rbegin(), above.rend(), std::back_inserter(limits), std::negate<>());
  limits.push_back(0);
  limits.insert(limits.end(), above.begin(), above.end());
  return limits;
}

struct Buckets {
  std::vector<double> limits;
  std::vector<double> counts;
};

// The buckets from the lowest to the highest that hold values, as TensorBoard takes min for the
// left end of the first and max for the right end of the last. Empty ones in a row become one.
Buckets buckets_of(const std::vector<double>& values) {
  const std::vector<double> limits = bucket_limits();
  std::vector<double> counts(limits.size());
  for (const double value : values) {
    ++counts[static_cast<std::size_t>(std::upper_bound(limits.begin(), limits.end(), value) -
                                      limits.begin())];
  }
  Buckets buckets;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const bool empty = counts[i] == 0;
    if (empty && buckets.counts.empty()) continue;
    if (empty && buckets.counts.back() == 0) {
      buckets.limits.back() = limits[i];
    } else {
      buckets.limits.push_back(limits[i]);
      buckets.counts.push_back(counts[i]);
    }
  }
  if (buckets.counts.back() == 0) {
    buckets.limits.pop_back();
    buckets.counts.pop_back();
  }
  return buckets;
}

Message histogram_of(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  const Buckets buckets = buckets_of(values);
  Message histogram;
  histogram.number(1, *least);
  histogram.number(2, *greatest);
  histogram.number(3, static_cast<double>(values.size()));
  histogram.number(4, sum);
  histogram.number(5, squares);
  histogram.numbers(6, buckets.limits);
  histogram.numbers(7, buckets.counts);
  return histogram;
}

// For each byte, the remainder it leaves: 8 divisions by the reversed polynomial.
constexpr std::array<std::uint32_t, 256> remainders() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? kPolynomial : 0);
    table[i] = rest;
  }
  return table;
}

// Records hold checksums masked, so that the checksum of bytes with checksums in them stays useful.
std::uint32_t masked_checksum(std::string_view bytes) {
  constexpr std::uint32_t kMask = 0xA282EAD8;
  return std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + kMask;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr std::array<std::uint32_t, 256> kRemainders = remainders();
  std::uint32_t rest = ~std::uint32_t{0};
  for (const std::byte byte : bytes) {
    rest = (rest >> 8U) ^ kRemainders[(rest ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU];
  }
  return ~rest;
}

// Appends, so that a second file of the same second adds to the first.
TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder, std::int64_t first_step)
    : path_(folder / fmt::format("events.out.tfevents.{}.{}",
                                 static_cast<std::int64_t>(unix_seconds()), host_name())),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kReadableByAll)) {
  require(file_.open(), "{}: cannot be opened for writing: {}", path_.string(),
          std::strerror(errno));
  Message version;
  version.number(1, unix_seconds());
  version.text(3, "brain.Event:2");
  add(version.bytes());
  Message log;
  log.integer(1, 1);  // status: START
  Message start = event_at(first_step);
  start.message(7, log);
  add(start.bytes());
  flush();
}

TensorBoardFile::~TensorBoardFile() {
  try {
    flush();
  } catch (const Error&) {  // a destructor has nobody to tell
  }
}

void TensorBoardFile::scalar(const std::string& tag, std::int64_t step, double value) {
  Message named;
  named.short_number(2, static_cast<float>(value));
  add(event_of(named, step, tag).bytes());
}

void TensorBoardFile::histogram(const std::string& tag, std::int64_t step,
                                std::span<const float> values) {
  std::vector<double> finite;
  finite.reserve(values.size());
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](float value) { return std::isfinite(value); });
  if (finite.empty()) return;
  Message named;
  named.message(5, histogram_of(finite));
  add(event_of(named, step, tag).bytes());
}

// A record: the length, its checksum, the event, its checksum.
void TensorBoardFile::add(const std::string& event) {
  std::string length;
  append(length, std::uint64_t{event.size()});
  pending_ += length;
  append(pending_, masked_checksum(length));
  pending_ += event;
  append(pending_, masked_checksum(event));
  if (pending_.size() >= kFlushAt) flush();
}

void TensorBoardFile::flush() {
  while (!pending_.empty()) {
    const ssize_t done = ::write(file_.get(), pending_.data(), pending_.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      throw Error(fmt::format("{}: cannot be written: {}", path_.string(), std::strerror(errno)));
    }
    pending_.erase(0, static_cast<std::size_t>(done));
  }
}

}  // namespace daso
