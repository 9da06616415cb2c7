// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"

namespace daso {

// One file of a ZIP archive.
struct ZipRecord {
  std::string name;
  std::uint64_t header = 0;  // where it begins in the archive
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;  // CRC-32
  bool stored = true;          // as it is; else it is compressed
};

// A ZIP archive, also of more than 4 GB or 65535 records (ZIP64). Its records are stored as they
// are where torch.save wrote it. All throw ConfigError naming the file.
class ZipArchive {
 public:
  // Reads the list of records.
  explicit ZipArchive(const std::filesystem::path& path);

  const std::vector<ZipRecord>& records() const { return records_; }
  // Null where there is none of this name. Refuses one that is compressed.
  const ZipRecord* find(const std::string& name) const;

  // All of its bytes, into as much room; checked against the checksum.
  void read(const ZipRecord& record, std::span<std::byte> bytes) const;

 private:
  struct Directory {  // the list of records
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
  };
  Directory find_directory() const;
  void read_directory(const Directory& directory);
  std::string text_at(std::uint64_t offset, std::uint64_t bytes) const;

  std::string name_;
  FileDescriptor file_;
  std::uint64_t bytes_ = 0;
  std::vector<ZipRecord> records_;
};

}  // namespace daso
