// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// Decimal numbers as values of flags. All throw ConfigError that names the flag, what it takes and
// what it got.
namespace daso::cli {

// A finite number.
double parse_number(const std::string& flag, const std::string& text);

// 0.9,0.8,nan, or the name of a file of such numbers, between which stand white space or commas.
std::vector<double> parse_numbers(const std::string& flag, const std::string& text);

}  // namespace daso::cli
