// SPDX-License-Identifier: Apache-2.0
#include "cli/config_file.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/base/toml.h"

namespace daso::cli {
namespace {

// Where an entry stands, for messages.
std::string place_of(const std::string& path, const TomlEntry& entry) {
  return fmt::format("{}: line {}", path, entry.line);
}

// Not those that are about the command line itself.
bool is_for_files(const CLI::Option& option) {
  return option.get_configurable() && !option.check_lname("config");
}

CLI::Option& option_of(CLI::App& app, const TomlEntry& entry, const std::string& path) {
  std::vector<std::string> names;
  for (CLI::Option* option : app.get_options()) {
    if (option->check_lname(entry.key)) {
      require(is_for_files(*option),
              "{}: '{}' cannot be set in a file; give --{} on the command line",
              place_of(path, entry), entry.key, entry.key);
      return *option;
    }
    const std::vector<std::string>& known = option->get_lnames();
    if (is_for_files(*option)) names.insert(names.end(), known.begin(), known.end());
  }
  const std::optional<std::string> meant = nearest(entry.key, names);
  throw ConfigError(fmt::format("{}: there is no key '{}'{}", place_of(path, entry), entry.key,
                                meant ? fmt::format("; did you mean '{}'?", *meant) : ""));
}

// Flags that take several values with commas between say so by the name of what they take.
bool takes_list(const CLI::Option& option) { return option.get_type_name().ends_with(",..."); }

// What the option takes; a list is one text on the command line.
std::string input_for(const CLI::Option& option, const TomlEntry& entry, const std::string& path) {
  if (takes_list(option)) return join(entry.values, ",");
  require(entry.values.size() == 1, "{}: '{}' takes one value, got {}: {}", place_of(path, entry),
          entry.key, entry.values.size(), join(entry.values, ", "));
  return entry.values[0];
}

void apply(CLI::Option& option, const TomlEntry& entry, const std::string& path) {
  const std::string input = input_for(option, entry, path);
  // A switch is true or false in a file; false is as if it were not there.
  if (option.get_expected_max() == 0) {
    require(input == "true" || input == "false", "{}: '{}' is true or false, got '{}'",
            place_of(path, entry), entry.key, input);
    if (input == "false") return;
  }
  try {
    option.add_result(input);
    option.run_callback();
  } catch (const CLI::Error& error) {
    throw ConfigError(fmt::format("{}: '{}': {}", place_of(path, entry), entry.key, error.what()));
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", place_of(path, entry), error.what()));
  }
}

}  // namespace

std::optional<std::string> configured(const std::string& path, const std::string& key) {
  if (!is_there(path)) return std::nullopt;
  for (const TomlEntry& entry : read_toml(path)) {
    if (entry.key == key && entry.values.size() == 1) return entry.values[0];
  }
  return std::nullopt;
}

void apply_config_file(CLI::App& app, const std::string& path,
                       const std::vector<std::string>& except) {
  require(is_there(path), "--config: there is no file '{}'", path);
  for (const TomlEntry& entry : read_toml(path)) {
    CLI::Option& option = option_of(app, entry, path);
    const bool replaced = std::find(except.begin(), except.end(), entry.key) != except.end();
    if (option.count() == 0 && !replaced) apply(option, entry, path);
  }
}

}  // namespace daso::cli
