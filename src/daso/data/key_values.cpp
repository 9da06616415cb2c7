// SPDX-License-Identifier: Apache-2.0
#include "daso/data/key_values.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

std::string key_of(const std::string& pair) { return pair.substr(0, pair.find('=')); }

bool is_pair(const std::string& part) { return part.find('=') != std::string::npos; }

}  // namespace

void KeyValues::whole_number(const std::string& name, std::int64_t& value, std::int64_t least,
                             std::int64_t most) {
  keys_.push_back({name, [data = data_, name, &value, least, most](const std::string& text) {
                     const std::optional<std::int64_t> number = parse_integer(text);
                     require(number && *number >= least && *number <= most,
                             "{}: {} must be a whole number in {} ... {}, got '{}'", data, name,
                             least, most, text);
                     value = *number;
                   }});
}

void KeyValues::fraction(const std::string& name, double& value) {
  keys_.push_back({name, [data = data_, name, &value](const std::string& text) {
                     double number = -1;
                     const char* const end = text.data() + text.size();
                     const auto [stop, problem] = std::from_chars(text.data(), end, number);
                     require(problem == std::errc() && stop == end && number >= 0 && number <= 1,
                             "{}: {} must lie in 0 ... 1, got '{}'", data, name, text);
                     value = number;
                   }});
}

void KeyValues::choice(const std::string& name, std::string& value,
                       const std::vector<std::string>& choices) {
  keys_.push_back({name, [data = data_, name, &value, choices](const std::string& text) {
                     require(std::ranges::find(choices, text) != choices.end(),
                             "{}: {} must be {}, got '{}'", data, name, join(choices, " or "),
                             text);
                     value = text;
                   }});
}

void KeyValues::read(const std::string& text) const { read_pairs(split(text, ',')); }

std::string KeyValues::read_behind(const std::string& text) const {
  std::vector<std::string> parts = split(text, ',');
  std::vector<std::string> pairs;
  while (parts.size() > 1 && is_pair(parts.back()) && find(key_of(parts.back())) != nullptr) {
    pairs.push_back(parts.back());
    parts.pop_back();
  }
  const std::string path = join(parts, ",");
  // What ends like a pair and is not there was meant as one.
  std::error_code problem;
  if (parts.size() > 1 && is_pair(parts.back()) && !std::filesystem::exists(path, problem)) {
    refuse_key(key_of(parts.back()));
  }
  read_pairs(pairs);
  return path;
}

void KeyValues::read_pairs(const std::vector<std::string>& pairs) const {
  std::set<std::string> seen;
  for (const std::string& pair : pairs) {
    require(is_pair(pair), "{}: '{}' is not key=value; keys: {}", data_, pair, join(names(), ", "));
    const std::string name = key_of(pair);
    const Key* const key = find(name);
    if (key == nullptr) refuse_key(name);
    key->set(pair.substr(name.size() + 1));
    require(seen.insert(name).second, "{}: {} is given twice", data_, name);
  }
}

const KeyValues::Key* KeyValues::find(const std::string& name) const {
  const auto key = std::ranges::find(keys_, name, &Key::name);
  return key == keys_.end() ? nullptr : &*key;
}

std::vector<std::string> KeyValues::names() const {
  std::vector<std::string> all;
  for (const Key& key : keys_) all.push_back(key.name);
  return all;
}

void KeyValues::refuse_key(const std::string& name) const {
  const std::optional<std::string> meant = nearest(name, names());
  throw ConfigError(fmt::format(
      "{} has no '{}'; {}", data_, name,
      meant ? fmt::format("did you mean '{}'?", *meant) : "it has " + join(names(), ", ")));
}

}  // namespace daso
