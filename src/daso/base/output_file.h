// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"

namespace daso {

// The one way to write a file. What stands at its path decides how, and is never destroyed:
//
//   nothing, or a plain file   The new bytes lie beside it, in a draft that nobody else has, until
//                              publish() has synced and renamed it: who opens the name finds the
//                              whole file or what was there before, also after a crash. Owner and
//                              permissions of the file before stay.
//   a link to a plain file     The same with the file that it means; the link stays.
//   a pipe, a terminal,        Bytes go straight to it. A named pipe is waited for until somebody
//   /dev/null, /dev/stdout     reads it.
//   anything else              A ConfigError: a folder, a socket, a disk, a file that we may not
//                              write, a link that leads nowhere.
//
// A draft is called NAME.RANDOM.part. One that is not published is removed; only a kill leaves it
// over, and who owns the folder may remove it then. All throw Error naming the file and the reason
// (a full disk); what cannot even be opened is a ConfigError.
class OutputFile {
 public:
  static constexpr Seconds kReaderLimit{60};  // for somebody to read a named pipe

  explicit OutputFile(std::filesystem::path path, Seconds reader_limit = kReaderLimit);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void publish();
  // The same without waiting for the disk, for what is soon written again: whole for every reader,
  // but a crash of the machine may lose it.
  void publish_unsynced();

 private:
  void open_draft();
  void open_stream(Seconds reader_limit);
  void rename_draft();
  [[noreturn]] void fail(const char* what) const;

  const std::filesystem::path path_;  // as it was asked for
  std::filesystem::path target_;      // the plain file behind links
  std::filesystem::path draft_;       // empty: bytes go straight to the target
  FileDescriptor file_;               // open until it is published
};

// A whole text as a file.
void write_file(const std::filesystem::path& path, std::string_view text);
void write_file_unsynced(const std::filesystem::path& path, std::string_view text);

}  // namespace daso
