// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/byte_cursor.h"

#include <unistd.h>

#include <bit>
#include <cerrno>

namespace daso {

static_assert(std::endian::native == std::endian::little, "files of tensors are little-endian");

void read_at(const FileDescriptor& file, const std::string& name, std::uint64_t offset,
             std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, "{}: cannot be read: {}", name, std::strerror(errno));
    require(count > 0, "{}: ends early", name);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

}  // namespace daso
