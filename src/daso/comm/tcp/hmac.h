// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace daso::tcp {

using Digest = std::array<std::byte, 32>;

// HMAC-SHA256 (RFC 2104, FIPS 180-4): who knows the key can say it, nobody else.
Digest hmac_sha256(std::string_view key, std::span<const std::byte> message);

// In a time that does not depend on where the two differ.
bool equal(const Digest& one, const Digest& other);

}  // namespace daso::tcp
