// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

// Flat TOML files, as the configuration of a run is: keys and values, no sections.
namespace daso {

struct TomlEntry {
  std::string key;
  std::vector<std::string> values;  // as on a command line; one, unless it is a list
  int line = 0;                     // where it stands, from 1
};

// In the file's order. Throws ConfigError, with the line, for what is no TOML, and for sections,
// dates and keys that are given twice.
std::vector<TomlEntry> read_toml(const std::filesystem::path& file);

// The lines of a file from which read_toml() gets these keys and values.
std::string toml_of(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace daso
