// SPDX-License-Identifier: Apache-2.0
#include "daso/data/files.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <system_error>

#include "daso/base/error.h"
#include "daso/base/file_descriptor.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"

namespace daso {

namespace fs = std::filesystem;

void require_folder(const fs::path& folder, const std::string& usage) {
  require(!folder.empty(), "no folder is named; write {}", usage);
  require(is_there(folder), "{}: there is no such folder ({})", folder.string(), usage);
  require(is_folder(folder), "{}: not a folder ({})", folder.string(), usage);
  require(!names_in(folder).empty(), "{}: the folder is empty ({})", folder.string(), usage);
}

fs::path first_there(const fs::path& folder, const std::vector<std::string>& names) {
  constexpr std::size_t kNamesShown = 8;
  for (const std::string& name : names) {
    if (is_there(folder / name)) return folder / name;
  }
  std::vector<std::string> there = names_in(folder);
  if (there.size() > kNamesShown) {
    there.resize(kNamesShown);
    there.emplace_back("...");
  }
  throw ConfigError(fmt::format("{}: holds no {}; found: {}", folder.string(), join(names, " or "),
                                there.empty() ? "nothing" : join(there, ", ")));
}

namespace {

using Bytes = std::span<std::uint8_t>;

constexpr std::size_t kPiece = std::size_t{1} << 18;  // memory grows by so much at a time
constexpr std::uint8_t kGzipMark = 0x1f;              // the first byte of every gzip stream

}  // namespace

// A file's bytes in order.
class ByteSource {
 public:
  explicit ByteSource(const fs::path& path) : name_(path.string()), file_(open_file(path)) {}
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  // Puts at least one byte into the buffer, or none at the end, and says how many.
  virtual std::size_t fill(Bytes buffer) { return read(buffer); }

 protected:
  std::size_t read(Bytes buffer) const {
    ssize_t count = -1;
    do {
      count = ::read(file_.get(), buffer.data(), buffer.size());
    } while (count < 0 && errno == EINTR);
    require(count >= 0, "{}: cannot be read: {}", name_, std::generic_category().message(errno));
    return static_cast<std::size_t>(count);
  }

  std::string name_;

 private:
  FileDescriptor file_;
};

namespace {

// One gzip stream or several in a row, as gzip itself allows.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const fs::path& path) : ByteSource(path) {
    constexpr int kGzipOnly = 16;
    DASO_ASSERT(::inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { ::inflateEnd(&stream_); }

  std::size_t fill(Bytes buffer) override {
    buffer = buffer.first(std::min<std::size_t>(buffer.size(), std::numeric_limits<uInt>::max()));
    stream_.next_out = buffer.data();
    stream_.avail_out = static_cast<uInt>(buffer.size());
    while (stream_.avail_out == buffer.size() && more_input()) {
      const int result = ::inflate(&stream_, Z_NO_FLUSH);
      require(result == Z_OK || result == Z_STREAM_END, "{}: damaged gzip file ({})", name_,
              stream_.msg != nullptr ? stream_.msg : ::zError(result));
      inside_ = result == Z_OK;
    }
    return buffer.size() - stream_.avail_out;
  }

 private:
  // False at the end of the last stream. Refuses a file that ends within one, or goes on with
  // something else behind it.
  bool more_input() {
    if (stream_.avail_in == 0) {
      stream_.next_in = packed_.data();
      stream_.avail_in = static_cast<uInt>(read(packed_));
    }
    if (stream_.avail_in == 0) {
      require(!inside_, "{}: truncated gzip file", name_);
      return false;
    }
    if (!inside_) {
      require(*stream_.next_in == kGzipMark,
              "{}: damaged gzip file (something else follows its end)", name_);
      DASO_ASSERT(::inflateReset(&stream_) == Z_OK);
      inside_ = true;
    }
    return true;
  }

  z_stream stream_{};
  bool inside_ = true;  // a stream that has begun and not ended
  std::array<std::uint8_t, 65536> packed_{};
};

}  // namespace

ByteReader::ByteReader(const fs::path& path) : path_(path) {
  if (path.extension() == ".gz") {
    source_ = std::make_unique<GzipSource>(path);
  } else {
    source_ = std::make_unique<ByteSource>(path);
  }
}

ByteReader::~ByteReader() = default;

std::vector<std::uint8_t> ByteReader::take(std::int64_t bytes, const std::string& what) {
  std::vector<std::uint8_t> taken;
  const auto wanted = static_cast<std::size_t>(bytes);
  while (taken.size() < wanted) {
    const std::size_t before = taken.size();
    taken.resize(before + std::min(kPiece, wanted - before));
    const std::size_t count = source_->fill(Bytes(taken).subspan(before));
    taken.resize(before + count);
    require(count > 0, "{}: truncated: it ends after {} bytes, {} would end at byte {}",
            path_.string(), taken_ + static_cast<std::int64_t>(before), what, taken_ + bytes);
  }
  taken_ += bytes;
  return taken;
}

std::vector<std::uint8_t> ByteReader::take_rest() {
  std::vector<std::uint8_t> taken;
  std::size_t count = 0;
  do {
    const std::size_t before = taken.size();
    taken.resize(before + kPiece);
    count = source_->fill(Bytes(taken).subspan(before));
    taken.resize(before + count);
  } while (count > 0);
  taken_ += static_cast<std::int64_t>(taken.size());
  return taken;
}

void ByteReader::expect_end() {
  std::array<std::uint8_t, 1> byte{};
  require(source_->fill(byte) == 0, "{}: has more than the {} bytes that its header promises",
          path_.string(), taken_);
}

}  // namespace daso
