// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// JSON that somebody has written by hand or by program: every look at it either gives what was
// asked for, or throws ConfigError that names the place, what belongs there and what was found. No
// number is turned into one of another kind: 1.5 or true is not taken for a count.
namespace daso {

// A part of a document, and where it stands: "file.json: expect.events[3].do".
class CheckedJson {
 public:
  CheckedJson(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool is_object() const;
  bool is_list() const;
  bool is_null() const;
  // False for what is no object.
  bool has(const std::string& field) const;

  // An object with all of the first fields, and no other than those of both lists.
  void expect_fields(const std::vector<std::string>& required,
                     const std::vector<std::string>& optional = {}) const;
  CheckedJson at(const std::string& field) const;
  // The elements of a list; `size` where it must have so many.
  std::vector<CheckedJson> list(std::optional<std::size_t> size = {}) const;

  std::string text() const;
  std::string one_of(const std::vector<std::string>& choices) const;
  std::int64_t integer(std::int64_t at_least) const;
  int count(int at_least) const;
  double number() const;
  // A list of numbers that float32 can hold; of exactly so many.
  std::vector<double> floats(std::size_t size) const;
  // A list of whole numbers.
  std::vector<int> integers(std::optional<std::size_t> size, int at_least) const;

  // Throws the ConfigError: "WHERE: MESSAGE".
  [[noreturn]] void refuse(std::string_view message) const;

 private:
  std::string found() const;
  void expect_list(std::optional<std::size_t> size) const;
  CheckedJson element(std::size_t index) const;

  const nlohmann::json* value_;  // of a document that outlives this
  std::string where_;
};

// The document that a text is. ConfigError that begins with `where` for what is no JSON, for an
// object that has a field twice, of which readers would take one or the other, and for values
// nested deeper than who walks through them has stack for.
nlohmann::json parse_json(std::string_view text, const std::string& where);
// None for all of those.
std::optional<nlohmann::json> json_in(std::string_view text);
// The document in a file; ConfigError also where it cannot be read.
nlohmann::json read_json(const std::filesystem::path& path);

// A value for a message: cut if it is long, with nothing in it that a terminal would obey.
std::string shown(const nlohmann::json& value);

}  // namespace daso
