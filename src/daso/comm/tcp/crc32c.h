// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace daso::tcp {

// The checksum that is published as CRC-32C (Castagnoli). Begin with 0; a checksum of two parts is
// that of the second, begun with that of the first. Processors compute it about as fast as they
// read memory.
std::uint32_t crc32c(std::uint32_t before, std::span<const std::byte> bytes);

}  // namespace daso::tcp
