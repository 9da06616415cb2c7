// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "daso/base/file_descriptor.h"

namespace daso {

// A file that TensorBoard reads: values over steps. Records reach the file whole and in the order
// in which they were given, when flush() is called or many have gathered, so a reader can follow
// while it grows. One thread at a time.
//
// All throw Error naming the file and the reason (a full disk). What could not be written is kept,
// and the next flush() goes on where this one ended.
class TensorBoardFile {
 public:
  // Makes folder/events.out.tfevents.<unix seconds>.<host name>. Throws ConfigError if it cannot be
  // written. TensorBoard forgets what the folder's older files say of first_step and later: a run
  // that is resumed does those steps again.
  explicit TensorBoardFile(const std::filesystem::path& folder, std::int64_t first_step = 0);
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;
  ~TensorBoardFile();  // flushes; a failure is not reported

  // TensorBoard keeps 24 bits of it.
  void scalar(const std::string& tag, std::int64_t step, double value);
  // How the finite ones among the values are spread; writes nothing if there are none.
  void histogram(const std::string& tag, std::int64_t step, std::span<const float> values);
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void add(const std::string& event);

  const std::filesystem::path path_;
  FileDescriptor file_;
  std::string pending_;  // what the file does not have yet
};

// The checksum of the file's records: the one that is published as CRC-32C, of Castagnoli.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace daso
