// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "daso/base/file_descriptor.h"

namespace daso {

// A file in the making. It lies beside its name, with ".part" behind it, until publish() has synced
// it to disk and renamed it: who opens the name finds the whole file, or what was there before,
// also after a crash. A draft that is not published is removed; one that a crash left over is
// overwritten by the next.
//
// All throw Error naming the file and the reason (a full disk); a file that cannot even be opened
// is a ConfigError.
class DraftFile {
 public:
  explicit DraftFile(std::filesystem::path path);
  DraftFile(const DraftFile&) = delete;
  DraftFile& operator=(const DraftFile&) = delete;
  ~DraftFile();

  void write(std::span<const std::byte> bytes);
  void publish();

 private:
  [[noreturn]] void fail(const char* what) const;

  const std::filesystem::path path_;
  const std::filesystem::path draft_;
  FileDescriptor file_;  // open until it is published
};

}  // namespace daso
