// SPDX-License-Identifier: Apache-2.0
#include "cli/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso::cli {
namespace {

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

std::vector<std::string> words_in(std::istream& file) {
  std::string text(std::istreambuf_iterator<char>(file), {});
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

double parse_number(const std::string& flag, const std::string& text) {
  const std::optional<double> value = number_in(text);
  require(value && std::isfinite(*value), "{} takes a number, got '{}'", flag, text);
  return *value;
}

std::vector<double> parse_numbers(const std::string& flag, const std::string& text) {
  Numbers numbers = numbers_in(split(text, ','));
  if (numbers.strange) {
    std::ifstream file(text);
    require(file.is_open(),
            "{} takes numbers like 0.9,0.8 or a file of them, got '{}': '{}' is no number, and "
            "there is no such file to read",
            flag, text, *numbers.strange);
    numbers = numbers_in(words_in(file));
    require(!numbers.strange, "{}: '{}' in the file {} is no number", flag,
            numbers.strange.value_or(""), text);
  }
  require(!numbers.values.empty(), "{} needs at least one number, got '{}'", flag, text);
  return numbers.values;
}

}  // namespace daso::cli
