// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace daso {

inline constexpr char32_t kLastCodePoint = 0x10ffff;

// The characters of a UTF-8 text. Throws ConfigError with the first byte of what Unicode does not
// allow: broken or cut off sequences, forms that are longer than they need be, surrogates, numbers
// above kLastCodePoint. `name` is the file's.
std::vector<char32_t> decode_utf8(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace daso
