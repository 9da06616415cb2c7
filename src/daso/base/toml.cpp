// SPDX-License-Identifier: Apache-2.0
#include "daso/base/toml.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <regex>
#include <sstream>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"

namespace daso {
namespace {

// As it would be written on a command line; none for what has no such form.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return std::nullopt;
}

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

TomlEntry entry_of(const std::string& file, const std::string& key, const toml::node& node) {
  require(!node.is_table(), "{}: line {}: '{}' is a section; this file has none, only key = value",
          file, line_of(node), key);
  TomlEntry entry{.key = key, .values = {}, .line = line_of(node)};
  const auto add = [&](const toml::node& one) {
    std::optional<std::string> text = text_of(one);
    require(text.has_value(), "{}: line {}: '{}' takes a text, a number, true or false", file,
            entry.line, key);
    entry.values.push_back(*std::move(text));
  };
  if (const toml::array* list = node.as_array()) {
    for (const toml::node& one : *list) add(one);
  } else {
    add(node);
  }
  return entry;
}

// TOML's whole numbers have 63 bits, seeds 64: files of earlier versions have such numbers bare.
std::string quote_large_seed(const std::string& text) {
  const std::regex seed(R"((^|\n)(seed = )(\d{19,20})(?=\n|$))");
  return std::regex_replace(text, seed, "$1$2\"$3\"");
}

// A number that is read as the same text again needs no quotes.
bool is_bare(const std::string& text) {
  if (text == "true" || text == "false") return true;
  if (const auto whole = parse_integer(text)) return fmt::format("{}", *whole) == text;
  double number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc() && end == last && std::isfinite(number) &&
         fmt::format("{}", number) == text;
}

std::string line_of(const std::string& key, const std::string& value) {
  if (is_bare(value)) return fmt::format("{} = {}\n", key, value);
  const toml::table line{{key, value}};
  std::ostringstream stream;
  stream << toml::toml_formatter(line, toml::format_flags::none) << "\n";
  return stream.str();
}

}  // namespace

std::vector<TomlEntry> read_toml(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  std::vector<TomlEntry> entries;
  try {
    const toml::table table = toml::parse(quote_large_seed(text));
    for (const auto& [key, node] : table) {
      entries.push_back(entry_of(file.string(), std::string(key.str()), node));
    }
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}: line {}: {}", file.string(), error.source().begin.line,
                                  error.description()));
  }
  // The library sorts by key; two in one line keep that order.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
  return entries;
}

std::string toml_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string text;
  for (const auto& [key, value] : entries) text += line_of(key, value);
  return text;
}

}  // namespace daso
