// SPDX-License-Identifier: Apache-2.0
#include "cli/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/network.h"

namespace daso::cli {
namespace {

std::vector<std::string> parse_list(const std::string& flag, const std::string& text) {
  std::vector<std::string> parts = split(text, ',');
  require(!parts.empty(), "{} needs at least one value", flag);
  return parts;
}

// What `parse` gives; its errors get the flag's name.
template <typename Parse>
auto named(const std::string& flag, const Parse& parse) {
  try {
    return parse();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", flag, error.what()));
  }
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

Seconds parse_seconds(const std::string& flag, const std::string& text, Seconds at_least) {
  constexpr double kYear = 365.0 * 86400;  // more is a mistake, and would overflow the clock
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const bool number = error == std::errc() && end == last && std::isfinite(value);
  require(number && value >= at_least.count() && value <= kYear,
          "{} takes seconds, at least {}, got '{}'", flag, at_least.count(), text);
  return Seconds(value);
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

std::string parse_address_flag(const std::string& flag, const std::string& text) {
  return named(flag, [&] { return parse_address(text).text(); });
}

std::vector<std::int64_t> parse_sizes(const std::string& flag, const std::string& text) {
  std::vector<std::int64_t> sizes;
  for (const std::string& part : parse_list(flag, text)) {
    sizes.push_back(named(flag, [&] { return parse_bytes(part); }));
  }
  return sizes;
}

}  // namespace daso::cli
