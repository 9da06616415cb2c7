// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "daso/base/file_descriptor.h"

namespace daso {

// Memory that several processes of one machine see, or several threads as if they were processes.
// It has a name only until all have come: then nothing is left behind, however they end.
//
// Who is alive is seen by locks on the file, one byte per rank: the kernel frees them when a
// process dies. A process id would not do, since ranks may live in containers of their own.
class SharedMemory {
 public:
  // Zeroed memory under a random name, for this user alone. Both give nothing where the system has
  // none to give.
  static std::optional<SharedMemory> create(std::size_t bytes);
  static std::optional<SharedMemory> attach(const std::string& name, std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  const std::string& name() const { return name_; }
  std::span<std::byte> bytes() const { return bytes_; }
  // Takes the name away; who has come stays.
  void unname();

  // Says that this rank lives, until this object dies. False if it cannot be said.
  bool sign(int rank);
  bool has_signed(int rank) const;  // for ranks other than the own

 private:
  SharedMemory(FileDescriptor file, std::span<std::byte> bytes, std::string name, bool named);
  static std::optional<SharedMemory> map(FileDescriptor file, std::size_t bytes, std::string name);

  FileDescriptor file_;
  std::span<std::byte> bytes_;
  std::string name_;
  bool named_ = false;  // by us
};

}  // namespace daso
