// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace daso {

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
