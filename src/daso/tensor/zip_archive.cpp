// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/tensor/byte_cursor.h"
#include "daso/tensor/safetensors_header.h"

namespace daso {
namespace {

// The parts of an archive by their first four bytes, and how long each is without its names. The
// list of records stands behind them, and the end behind the list: so it is read backwards.
constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kCentral = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocator64Bytes = 20;
constexpr std::uint64_t kLongestComment = 65535;
constexpr std::uint64_t kLargestDirectory = 100'000'000;  // a longer one is an attack
constexpr std::uint16_t kSizes64 = 1;                     // an extra field: numbers of 64 bits
constexpr std::uint32_t kSee64 = std::numeric_limits<std::uint32_t>::max();

// A number of 32 bits that may stand in the extra field instead.
std::uint64_t widened(std::uint32_t number, ByteCursor& extra) {
  return number == kSee64 ? extra.number<std::uint64_t>() : number;
}

// The extra field of this kind; empty: there is none.
std::string_view extra_field(std::string_view all, std::uint16_t kind, const std::string& where) {
  ByteCursor fields(all, where);
  while (!fields.at_end()) {
    const auto found = fields.number<std::uint16_t>();
    const std::string_view content = fields.text(fields.number<std::uint16_t>());
    if (found == kind) return content;
  }
  return {};
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& path)
    : name_(path.string()),
      file_(open_file(path)),
      bytes_(static_cast<std::uint64_t>(file_bytes(path))) {
  read_directory(find_directory());
}

const ZipRecord* ZipArchive::find(const std::string& name) const {
  const auto found = std::find_if(records_.begin(), records_.end(),
                                  [&](const ZipRecord& one) { return one.name == name; });
  if (found == records_.end()) return nullptr;
  require(
      found->stored,
      "{}: record {} is compressed, which torch.save never does: save the tensors again with it",
      name_, daso::quoted(name));
  return &*found;
}

std::string ZipArchive::text_at(std::uint64_t offset, std::uint64_t bytes) const {
  require(offset <= bytes_ && bytes <= bytes_ - offset,
          "{}: is truncated or damaged: a part of it should lie at byte {} and have {}, the file "
          "has {}",
          name_, offset, bytes, bytes_);
  std::string text(bytes, '\0');
  read_at(file_, name_, offset, std::as_writable_bytes(std::span(text)));
  return text;
}

ZipArchive::Directory ZipArchive::find_directory() const {
  const std::uint64_t searched = std::min(bytes_, kEndBytes + kLongestComment);
  const std::string tail = text_at(bytes_ - searched, searched);
  const std::string mark(reinterpret_cast<const char*>(&kEnd), sizeof kEnd);
  const std::size_t found =
      tail.size() < kEndBytes ? std::string::npos : tail.rfind(mark, tail.size() - kEndBytes);
  require(found != std::string::npos, "{}: is truncated: it begins as a ZIP archive without an end",
          name_);
  ByteCursor end(std::string_view(tail).substr(found), name_);
  end.text(10);  // mark, numbers of disks, records on this one
  Directory directory;
  directory.records = end.number<std::uint16_t>();
  directory.bytes = end.number<std::uint32_t>();
  directory.offset = end.number<std::uint32_t>();

  const std::uint64_t at = bytes_ - searched + found;
  if (at < kLocator64Bytes) return directory;
  const std::string before = text_at(at - kLocator64Bytes, kLocator64Bytes);
  ByteCursor locator(before, name_);
  if (locator.number<std::uint32_t>() != kLocator64) return directory;
  locator.text(4);
  const std::string text = text_at(locator.number<std::uint64_t>(), kEnd64Bytes);
  ByteCursor end64(text, name_);
  require(end64.number<std::uint32_t>() == kEnd64, "{}: is damaged: its ZIP64 end is missing",
          name_);
  end64.text(28);
  directory.records = end64.number<std::uint64_t>();
  directory.bytes = end64.number<std::uint64_t>();
  directory.offset = end64.number<std::uint64_t>();
  return directory;
}

void ZipArchive::read_directory(const Directory& directory) {
  require(directory.bytes <= kLargestDirectory,
          "{}: is damaged: the list of its records would have {} bytes", name_, directory.bytes);
  const std::string list = text_at(directory.offset, directory.bytes);
  ByteCursor entries(list, name_ + ": the list of its records");
  for (std::uint64_t i = 0; i < directory.records; ++i) {
    require(entries.number<std::uint32_t>() == kCentral,
            "{}: is damaged: record {} of its archive is not described", name_, i);
    entries.text(6);  // versions, flags
    const auto method = entries.number<std::uint16_t>();
    entries.text(4);  // time
    ZipRecord record{.checksum = entries.number<std::uint32_t>()};
    const auto stored = entries.number<std::uint32_t>();
    const auto bytes = entries.number<std::uint32_t>();
    const auto name_bytes = entries.number<std::uint16_t>();
    const auto extra_bytes = entries.number<std::uint16_t>();
    const auto comment_bytes = entries.number<std::uint16_t>();
    entries.text(8);  // disk, attributes
    const auto header = entries.number<std::uint32_t>();
    record.name = entries.text(name_bytes);
    const std::string where = fmt::format("{}: record {}", name_, daso::quoted(record.name));
    ByteCursor extra(extra_field(entries.text(extra_bytes), kSizes64, where), where);
    entries.text(comment_bytes);
    record.bytes = widened(bytes, extra);
    const std::uint64_t packed = widened(stored, extra);
    record.header = widened(header, extra);
    record.stored = method == 0 && packed == record.bytes;
    require(!record.stored || record.bytes <= bytes_,
            "{} is truncated: it should have {} bytes, the whole file has {}", where, record.bytes,
            bytes_);
    records_.push_back(std::move(record));
  }
}

void ZipArchive::read(const ZipRecord& record, std::span<std::byte> bytes) const {
  DASO_ASSERT(bytes.size() == record.bytes);
  const std::string where = fmt::format("{}: record {}", name_, daso::quoted(record.name));
  const std::string text = text_at(record.header, kLocalBytes);
  ByteCursor header(text, where);
  require(header.number<std::uint32_t>() == kLocal, "{} is not where the list says", where);
  header.text(22);
  const auto name_bytes = header.number<std::uint16_t>();
  const auto extra_bytes = header.number<std::uint16_t>();
  const std::uint64_t begin = record.header + kLocalBytes + name_bytes + extra_bytes;
  require(begin <= bytes_ && record.bytes <= bytes_ - begin,
          "{} is truncated: it should have {} bytes from byte {} on, the file has {}", where,
          record.bytes, begin, bytes_);
  read_at(file_, name_, begin, bytes);
  const auto checksum = static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  require(checksum == record.checksum,
          "{} is damaged: its checksum is {:08x}, the archive says {:08x}", where, checksum,
          record.checksum);
}

}  // namespace daso
