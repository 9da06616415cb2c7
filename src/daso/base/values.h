// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "daso/base/seconds.h"

// Values as people write them, on a command line or in a file. All throw ConfigError that names
// what they are for (`flag`, like --skip), what it takes and what it got.
namespace daso {

int parse_count(const std::string& flag, const std::string& text, int at_least,
                int at_most = std::numeric_limits<int>::max());
// 3,1,2
std::vector<int> parse_counts(const std::string& flag, const std::string& text, int at_least);

// Of random numbers: all that 64 bits hold.
std::uint64_t parse_seed(const std::string& flag, const std::string& text);

// A finite decimal number.
double parse_number(const std::string& flag, const std::string& text);

// 0.9,0.8,nan, or the name of a file of such numbers, between which stand white space or commas.
std::vector<double> parse_numbers(const std::string& flag, const std::string& text);

// A decimal number of seconds of at least `at_least`.
Seconds parse_seconds(const std::string& flag, const std::string& text, Seconds at_least);

// One of the choices, or a list of them without repetition.
std::string parse_choice(const std::string& flag, const std::string& text,
                         const std::vector<std::string>& choices);
std::vector<std::string> parse_choices(const std::string& flag, const std::string& text,
                                       const std::vector<std::string>& choices);

// 1K,1M,16M in bytes.
std::vector<std::int64_t> parse_sizes(const std::string& flag, const std::string& text);

}  // namespace daso
