// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/frame.h"

#include <algorithm>
#include <cstring>

#include "daso/base/error.h"
#include "daso/comm/tcp/integrity.h"

namespace daso::tcp {
namespace {

// As it travels, in the byte order of the machines that there are.
struct Written {
  std::uint32_t kind;
  std::uint32_t group;
  std::uint32_t number;
  std::uint32_t checksum;  // of the header, taken with 0 in this place
  std::uint64_t length;
  std::uint64_t received;
};
static_assert(2 * sizeof(Written) == kHeaderBytes);

std::uint32_t checksum_of(Written wire) {
  wire.checksum = 0;
  return crc32c(0, std::as_bytes(std::span(&wire, 1)));
}

bool is_whole(const Written& wire) {
  const bool known = wire.kind <= static_cast<std::uint32_t>(Header::Kind::kGoodbye);
  return known && wire.checksum == checksum_of(wire);
}

}  // namespace

void encode(const Header& header, std::span<std::byte, kHeaderBytes> bytes) {
  Written wire{.kind = static_cast<std::uint32_t>(header.kind),
               .group = header.tag.group,
               .number = header.tag.number,
               .checksum = 0,
               .length = header.length,
               .received = header.received};
  wire.checksum = checksum_of(wire);
  std::memcpy(bytes.data(), &wire, sizeof wire);
  std::memcpy(bytes.data() + sizeof wire, &wire, sizeof wire);
}

std::optional<Header> decode(std::span<const std::byte, kHeaderBytes> bytes) {
  Written wire{};
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (!is_whole(wire)) std::memcpy(&wire, bytes.data() + sizeof wire, sizeof wire);
  if (!is_whole(wire)) return std::nullopt;
  return Header{.kind = static_cast<Header::Kind>(wire.kind),
                .tag = {.group = wire.group, .number = wire.number},
                .length = wire.length,
                .received = wire.received};
}

std::vector<std::byte> framed_letter(const Tag& tag, std::span<const std::byte> bytes) {
  std::vector<std::byte> frame(kHeaderBytes + bytes.size() + kChecksumBytes);
  encode({.kind = Header::Kind::kLetter, .tag = tag, .length = bytes.size()},
         std::span(frame).first<kHeaderBytes>());
  std::ranges::copy(bytes, frame.begin() + kHeaderBytes);
  const std::uint32_t checksum = crc32c(0, bytes);
  std::memcpy(frame.data() + kHeaderBytes + bytes.size(), &checksum, sizeof checksum);
  return frame;
}

std::vector<std::byte> framed_goodbye() {
  std::vector<std::byte> frame(kHeaderBytes);
  encode({.kind = Header::Kind::kGoodbye, .tag = {}}, std::span(frame).first<kHeaderBytes>());
  return frame;
}

void FrameReader::add(std::span<const std::byte> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(given_));
  given_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::optional<FrameReader::Frame> FrameReader::next(std::size_t most_letter_bytes) {
  const std::span<const std::byte> rest = std::span(bytes_).subspan(given_);
  if (rest.size() < kHeaderBytes) return std::nullopt;
  const std::optional<Header> header = decode(rest.first<kHeaderBytes>());
  if (!header) throw PeerError("what it sent was damaged on the way (no header of ours)");
  const bool is_letter = header->is_letter();
  if (is_letter && header->length > most_letter_bytes) {
    throw PeerError(fmt::format("it sent {} bytes where {} at most are allowed", header->length,
                                most_letter_bytes));
  }
  const std::size_t length = is_letter ? header->length : 0;
  const std::size_t whole = kHeaderBytes + length + (is_letter ? kChecksumBytes : 0);
  if (rest.size() < whole) return std::nullopt;
  const std::span<const std::byte> letter = rest.subspan(kHeaderBytes, length);
  if (is_letter) {
    std::uint32_t checksum = 0;
    std::memcpy(&checksum, rest.data() + kHeaderBytes + length, sizeof checksum);
    if (checksum != crc32c(0, letter)) {
      throw PeerError("what it sent was damaged on the way (its checksum is wrong)");
    }
  }
  given_ += whole;
  return Frame{.header = *header, .letter = {letter.begin(), letter.end()}};
}

}  // namespace daso::tcp
