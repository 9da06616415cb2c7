// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

// Folders and files of data as they are found: whatever is missing, damaged or too short becomes a
// ConfigError that names it.
namespace daso {

// Refuses what is not a folder or holds nothing. `usage` is what --data takes, like idx:DIR.
void require_folder(const std::filesystem::path& folder, const std::string& usage);

// The first of these names that the folder holds. Throws ConfigError with what is there instead.
std::filesystem::path first_there(const std::filesystem::path& folder,
                                  const std::vector<std::string>& names);

class ByteSource;

// Reads a file from its beginning to its end; one whose name ends in .gz is unpacked on the way.
// Whatever the file holds, memory is used for bytes that are there, not for bytes that a header
// promises. All functions throw ConfigError naming the file.
class ByteReader {
 public:
  explicit ByteReader(const std::filesystem::path& path);
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;
  ~ByteReader();

  // Exactly so many bytes; `what` they are is for the message if the file ends before.
  std::vector<std::uint8_t> take(std::int64_t bytes, const std::string& what);
  // All that is left.
  std::vector<std::uint8_t> take_rest();
  // Refuses a file that goes on.
  void expect_end();

 private:
  std::unique_ptr<ByteSource> source_;
  std::filesystem::path path_;
  std::int64_t taken_ = 0;
};

}  // namespace daso
