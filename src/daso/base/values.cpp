// SPDX-License-Identifier: Apache-2.0
#include "daso/base/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"

namespace daso {
namespace {

std::vector<std::string> parse_list(const std::string& flag, const std::string& text) {
  std::vector<std::string> parts = split(text, ',');
  require(!parts.empty(), "{} needs at least one value", flag);
  return parts;
}

// A number and nothing else; nan and inf are numbers here.
std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

// The numbers, or the first word that is none.
struct Numbers {
  std::vector<double> values;
  std::optional<std::string> strange;
};

Numbers numbers_in(const std::vector<std::string>& words) {
  Numbers numbers;
  for (const std::string& word : words) {
    const std::optional<double> value = number_in(word);
    if (!value) return {.values = {}, .strange = word};
    numbers.values.push_back(*value);
  }
  return numbers;
}

std::vector<std::string> words_in(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

int parse_count(const std::string& flag, const std::string& text, int at_least, int at_most) {
  const std::optional<std::int64_t> value = parse_integer(text);
  const std::string range = at_most == std::numeric_limits<int>::max()
                                ? fmt::format("of at least {}", at_least)
                                : fmt::format("in {} ... {}", at_least, at_most);
  require(value && *value >= at_least && *value <= at_most, "{} takes a whole number {}, got '{}'",
          flag, range, text);
  return static_cast<int>(*value);
}

std::vector<int> parse_counts(const std::string& flag, const std::string& text, int at_least) {
  std::vector<int> counts;
  for (const std::string& part : parse_list(flag, text)) {
    counts.push_back(parse_count(flag, part, at_least));
  }
  return counts;
}

std::uint64_t parse_seed(const std::string& flag, const std::string& text) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t seed = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, seed);
  require(error == std::errc() && end == last, "{} takes a whole number in 0 ... {}, got '{}'",
          flag, kLargest, text);
  return seed;
}

double parse_number(const std::string& flag, const std::string& text) {
  const std::optional<double> value = number_in(text);
  require(value && std::isfinite(*value), "{} takes a number, got '{}'", flag, text);
  return *value;
}

std::vector<double> parse_numbers(const std::string& flag, const std::string& text) {
  Numbers numbers = numbers_in(split(text, ','));
  if (numbers.strange) {
    std::error_code problem;  // a list of numbers may be longer than any name
    require(std::filesystem::is_regular_file(text, problem),
            "{} takes numbers like 0.9,0.8 or a file of them, got '{}': '{}' is no number, and "
            "there is no such file to read",
            flag, text, *numbers.strange);
    numbers = numbers_in(words_in(read_file(text)));
    require(!numbers.strange, "{}: '{}' in the file {} is no number", flag,
            numbers.strange.value_or(""), text);
  }
  require(!numbers.values.empty(), "{} needs at least one number, got '{}'", flag, text);
  return numbers.values;
}

Seconds parse_seconds(const std::string& flag, const std::string& text, Seconds at_least) {
  constexpr double kYear = 365.0 * 86400;  // more is a mistake, and would overflow the clock
  const std::optional<double> value = number_in(text);
  require(value && *value >= at_least.count() && *value <= kYear,
          "{} takes seconds, at least {}, got '{}'", flag, at_least.count(), text);
  return Seconds(*value);
}

std::string parse_choice(const std::string& flag, const std::string& text,
                         const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  const std::optional<std::string> meant = nearest(text, choices);
  throw ConfigError(fmt::format("{} takes {}, got '{}'{}", flag, join(choices, ", "), text,
                                meant ? fmt::format("; did you mean {}?", *meant) : ""));
}

std::vector<std::string> parse_choices(const std::string& flag, const std::string& text,
                                       const std::vector<std::string>& choices) {
  std::vector<std::string> chosen;
  for (const std::string& part : parse_list(flag, text)) {
    require(std::find(chosen.begin(), chosen.end(), part) == chosen.end(), "{} names {} twice",
            flag, part);
    chosen.push_back(parse_choice(flag, part, choices));
  }
  return chosen;
}

std::vector<std::int64_t> parse_sizes(const std::string& flag, const std::string& text) {
  std::vector<std::int64_t> sizes;
  for (const std::string& part : parse_list(flag, text)) {
    try {
      sizes.push_back(parse_bytes(part));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", flag, error.what()));
    }
  }
  return sizes;
}

}  // namespace daso
