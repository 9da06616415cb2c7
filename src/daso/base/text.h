// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace daso {

// "a,b,,c" at ',' gives a, b, "", c; "" gives nothing.
std::vector<std::string> split(std::string_view text, char at);
std::string join(const std::vector<std::string>& parts, std::string_view between);
std::string_view trim(std::string_view text);

// One word of a command line that a user may paste, or a shell runs: in quotes where it needs them.
std::string shell_word(const std::string& text);

// A whole decimal number and nothing else.
std::optional<std::int64_t> parse_integer(std::string_view text);

// Bytes as people write them, in powers of 1024: 17, 1K, 16M, 2G (also 1KB, 1KiB, either case).
// Throws ConfigError.
std::int64_t parse_bytes(std::string_view text);
// The shortest exact form of the same: 1048576 gives 1M, 1000 gives 1000.
std::string format_bytes(std::int64_t bytes);

// The candidate that takes the fewest edits to become `word`; none if all are too far away to be
// what the user meant.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// 64-bit FNV-1a as 16 hexadecimal digits: tells unequal texts apart, keeps no secret.
std::string digest(std::string_view text);

}  // namespace daso
