// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <utility>

namespace daso {

// Owns one descriptor of the operating system; a moved-from FileDescriptor owns none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, kNone)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      close();
      descriptor_ = std::exchange(other.descriptor_, kNone);
    }
    return *this;
  }
  ~FileDescriptor() { close(); }

  int get() const { return descriptor_; }
  bool open() const { return descriptor_ != kNone; }
  int release() { return std::exchange(descriptor_, kNone); }
  void close() {
    if (open()) ::close(std::exchange(descriptor_, kNone));
  }

 private:
  static constexpr int kNone = -1;
  int descriptor_ = kNone;
};

}  // namespace daso
