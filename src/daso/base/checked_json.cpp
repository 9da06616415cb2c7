// SPDX-License-Identifier: Apache-2.0
#include "daso/base/checked_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"

namespace daso {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestShown = 60;
constexpr std::size_t kDeepest = 64;  // our own files have less than 10

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::optional<std::string> meant = nearest(word, candidates);
  return meant ? fmt::format("; did you mean {}?", *meant) : "";
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Larger whole numbers than int64 has are kept as unsigned ones.
std::optional<std::int64_t> whole(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return std::nullopt;
  }
  return value.get<std::int64_t>();
}

// Looks through a text without making anything of it, and throws ConfigError for what a plain
// parser would let pass or report in its own words.
class DocumentCheck final : public nlohmann::json_sax<json> {
 public:
  explicit DocumentCheck(const std::string& where) : where_(where) {}

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }

  bool start_object(std::size_t /*size*/) override { return enter(); }
  bool key(string_t& name) override {
    require(names_.back().insert(name).second, "{}: has the field {} twice", where_,
            shown(json(name)));
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t /*size*/) override { return enter(); }
  bool end_array() override { return leave(); }

  bool parse_error(std::size_t position, const std::string& /*last*/,
                   const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    throw ConfigError(error.id == kOutOfRange
                          ? fmt::format("{}: is no JSON: the number that ends at byte {} is larger "
                                        "than any double",
                                        where_, position)
                          : fmt::format("{}: is no JSON from byte {} on", where_, position));
  }

 private:
  bool enter() {
    require(names_.size() < kDeepest, "{}: is nested deeper than {} levels", where_, kDeepest);
    names_.emplace_back();
    return true;
  }
  bool leave() {
    names_.pop_back();
    return true;
  }

  const std::string& where_;
  std::vector<std::set<std::string>> names_;  // of what is open, outermost first; a list has none
};

}  // namespace

bool CheckedJson::is_object() const { return value_->is_object(); }
bool CheckedJson::is_list() const { return value_->is_array(); }
bool CheckedJson::is_null() const { return value_->is_null(); }
bool CheckedJson::has(const std::string& field) const { return value_->contains(field); }

void CheckedJson::refuse(std::string_view message) const {
  throw ConfigError(fmt::format("{}: {}", where_, message));
}

std::string CheckedJson::found() const { return shown(*value_); }

void CheckedJson::expect_fields(const std::vector<std::string>& required,
                                const std::vector<std::string>& optional) const {
  if (!is_object()) refuse(fmt::format("takes an object, got {}", found()));
  std::vector<std::string> known = required;
  known.insert(known.end(), optional.begin(), optional.end());
  for (const auto& [name, value] : value_->items()) {
    if (!contains(known, name)) {
      refuse(fmt::format("has the unknown field '{}'{}", name, did_you_mean(name, known)));
    }
  }
  for (const std::string& name : required) {
    if (!has(name)) refuse(fmt::format("lacks the field '{}'", name));
  }
}

CheckedJson CheckedJson::at(const std::string& field) const {
  if (!has(field)) refuse(fmt::format("lacks the field '{}'", field));
  // Between the file's name and the first field stands a colon, later a dot.
  const bool top = where_.find(": ") == std::string::npos;
  return {value_->at(field), where_ + (top ? ": " : ".") + field};
}

CheckedJson CheckedJson::element(std::size_t index) const {
  return {value_->at(index), fmt::format("{}[{}]", where_, index)};
}

void CheckedJson::expect_list(std::optional<std::size_t> size) const {
  if (!is_list()) refuse(fmt::format("takes a list, got {}", found()));
  if (size && value_->size() != *size) {
    refuse(fmt::format("takes a list of {}, got one of {}", *size, value_->size()));
  }
}

std::vector<CheckedJson> CheckedJson::list(std::optional<std::size_t> size) const {
  expect_list(size);
  std::vector<CheckedJson> elements;
  for (std::size_t i = 0; i < value_->size(); ++i) elements.push_back(element(i));
  return elements;
}

std::string CheckedJson::text() const {
  if (!value_->is_string()) refuse(fmt::format("takes a text, got {}", found()));
  return value_->get<std::string>();
}

std::string CheckedJson::one_of(const std::vector<std::string>& choices) const {
  const std::string word = value_->is_string() ? value_->get<std::string>() : "";
  if (!contains(choices, word)) {
    refuse(fmt::format("takes {}, got {}{}", join(choices, ", "), found(),
                       did_you_mean(word, choices)));
  }
  return word;
}

std::int64_t CheckedJson::integer(std::int64_t at_least) const {
  const std::optional<std::int64_t> number = whole(*value_);
  if (!number || *number < at_least) {
    refuse(fmt::format("takes a whole number of at least {}, got {}", at_least, found()));
  }
  return *number;
}

int CheckedJson::count(int at_least) const {
  const std::int64_t number = integer(at_least);
  if (number > std::numeric_limits<int>::max()) refuse(fmt::format("{} is too large", found()));
  return static_cast<int>(number);
}

double CheckedJson::number() const {
  if (!value_->is_number()) refuse(fmt::format("takes a number, got {}", found()));
  return value_->get<double>();
}

std::vector<double> CheckedJson::floats(std::size_t size) const {
  expect_list(size);
  std::vector<double> values;
  values.reserve(size);
  for (const json& value : *value_) {
    // Places are made up only where they are needed: models have many numbers.
    const double number = value.is_number() ? value.get<double>() : element(values.size()).number();
    if (!std::isfinite(static_cast<float>(number))) {
      element(values.size()).refuse(fmt::format("{} is too large for float32", number));
    }
    values.push_back(number);
  }
  return values;
}

std::vector<int> CheckedJson::integers(std::optional<std::size_t> size, int at_least) const {
  expect_list(size);
  std::vector<int> values;
  values.reserve(value_->size());
  for (const json& value : *value_) {
    const std::optional<std::int64_t> number = whole(value);
    const bool fits = number && *number >= at_least && *number <= std::numeric_limits<int>::max();
    values.push_back(fits ? static_cast<int>(*number) : element(values.size()).count(at_least));
  }
  return values;
}

json parse_json(std::string_view text, const std::string& where) {
  DocumentCheck check(where);
  json::sax_parse(text, &check);
  return json::parse(text);
}

std::optional<json> json_in(std::string_view text) {
  try {
    return parse_json(text, "");
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

json read_json(const std::filesystem::path& path) {
  return parse_json(read_file(path), path.string());
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown) + "...";
  return text;
}

}  // namespace daso
