// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// How a report, a bar and `daso top` write text and numbers.
namespace daso {

// Text as it may stand in an element or between the quotes of an attribute. Bytes that are no UTF-8
// become U+FFFD.
std::string html_text(std::string_view text);

// A path as a link: what a URL gives a meaning of its own is escaped, slashes are not.
std::string link_to(const std::filesystem::path& path);

// 1234567.891 with 1 decimal gives 1,234,567.9.
std::string with_separators(double number, int decimals);

// Three figures that count, whatever the size: 0.0123, 4.56, 78.9, 12,345.
std::string short_number(double number);

// 12.3 s
std::string seconds_text(double seconds);

// How long something took or will take, to the second. What is no number, or below 0, counts as 0.
// For a line that has little room: 45 s, 6:15 min, 3:05 h.
std::string short_duration(double seconds);
// What people say for a time of two minutes and more: 4 min 12 s, 3 h 5 min; else "". It stands
// beside the seconds themselves.
std::string duration_text(double seconds);

// Seconds since 1970 as a date: 16 November 2026, 21:30 UTC.
std::string date_text(double seconds);

// A part of a line that may be too long for its screen.
struct LinePart {
  std::string text;  // empty: there is none
  int weight = 0;    // those with the least are left out first
};
// As many of them as fit into so many columns, with two spaces between; what is left is cut if even
// that is too long. For ASCII.
std::string fitted(std::vector<LinePart> parts, std::size_t columns);

// In powers of 1000: 29.6 MB.
std::string bytes_text(double bytes);
// 0.1934 gives 19.3 %.
std::string percent_text(double share);

}  // namespace daso
