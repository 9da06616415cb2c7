// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// What tells damage from what was sent, and a member of the job from a stranger.
namespace daso::tcp {

// The checksum that is published as CRC-32C (Castagnoli). Begin with 0; a checksum of two parts is
// that of the second, begun with that of the first. Processors compute it about as fast as they
// read memory.
std::uint32_t crc32c(std::uint32_t before, std::span<const std::byte> bytes);

using Digest = std::array<std::byte, 32>;

// HMAC-SHA256 (RFC 2104, FIPS 180-4): who knows the key can say it, nobody else.
Digest hmac_sha256(std::string_view key, std::span<const std::byte> message);
// In a time that does not depend on where the two differ.
bool equal(const Digest& one, const Digest& other);

}  // namespace daso::tcp
