// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// Texts as UTF-8. Paths and arguments of a program need not be any: to the system they are bytes.
namespace daso {

inline constexpr char32_t kLastCodePoint = 0x10ffff;

struct Utf8Character {
  char32_t point = 0;
  std::size_t bytes = 0;
};

// The character that the bytes begin with; none where there is none: an end that comes too early,
// a form that is longer than it need be, a surrogate, a number above kLastCodePoint.
std::optional<Utf8Character> first_character(std::span<const std::uint8_t> bytes);

bool is_utf8(std::string_view text);

// A code point as its bytes.
std::string utf8_of(char32_t point);

// For a message: bytes that are no character, and those that a terminal would obey, as \xff.
std::string printable(std::string_view text);

}  // namespace daso
