// SPDX-License-Identifier: Apache-2.0
#include "cli/config_file.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso::cli {
namespace {

// Flags that a file cannot give: they are about the command line itself.
bool belongs_to_the_command_line(const std::string& name) {
  return name == "config" || name == "help" || name == "resume";
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (!belongs_to_the_command_line(name)) names.push_back(name);
    }
  }
  return names;
}

CLI::Option& option_of(CLI::App& app, const std::string& key, const std::string& path) {
  require(!belongs_to_the_command_line(key),
          "{}: '{}' does not belong into a file; give --{} on the command line", path, key, key);
  const std::vector<std::string> names = names_of(app);
  if (std::find(names.begin(), names.end(), key) == names.end()) {
    throw ConfigError(fmt::format(
        "{}: there is no key '{}'{}", path, key,
        nearest(key, names) ? fmt::format("; did you mean '{}'?", *nearest(key, names)) : ""));
  }
  return *app.get_option("--" + key);
}

std::vector<CLI::ConfigItem> items_of(const std::string& path) {
  try {
    return CLI::ConfigTOML().from_file(path);
  } catch (const CLI::Error& error) {
    throw ConfigError(fmt::format("{} cannot be understood: {}", path, error.what()));
  }
}

// CLI11 does not tell where an entry stands: the first line that begins like it, or nothing.
std::string line_like(const std::string& path, const std::string& beginning) {
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (trim(line).starts_with(beginning)) {
      return fmt::format("line {}: expected key = value, found '{}'", number, trim(line));
    }
  }
  return "expected lines of key = value";
}

// Refuses sections, and lines without an equals sign, of which CLI11 makes keys.
void require_key(const CLI::ConfigItem& item, const std::string& path) {
  if (item.name == "++" || item.name == "--") {
    throw ConfigError(fmt::format("{}: {}; this file has no sections", path, line_like(path, "[")));
  }
  if (!item.parents.empty() || item.name.find(' ') != std::string::npos) {
    throw ConfigError(fmt::format("{}: {}", path, line_like(path, item.fullname())));
  }
}

// Flags that take several values with commas between say so by the name of what they take.
bool takes_list(const CLI::Option& option) { return option.get_type_name().ends_with(",..."); }

// What the option takes; a list is one text on the command line.
std::vector<std::string> inputs_for(const CLI::Option& option, const CLI::ConfigItem& item,
                                    const std::string& path) {
  if (takes_list(option)) return {join(item.inputs, ",")};
  require(item.inputs.size() == 1, "{}: '{}' takes one value, got {}: {}", path, item.name,
          item.inputs.size(), join(item.inputs, ", "));
  return item.inputs;
}

}  // namespace

std::optional<std::string> configured(const std::string& path, const std::string& key) {
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  for (const CLI::ConfigItem& item : items_of(path)) {
    if (item.name == key && item.inputs.size() == 1) return item.inputs[0];
  }
  return std::nullopt;
}

void apply_config_file(CLI::App& app, const std::string& path,
                       const std::vector<std::string>& except) {
  require(std::filesystem::is_regular_file(path), "--config: there is no file '{}'", path);
  std::set<std::string> seen;
  for (const CLI::ConfigItem& item : items_of(path)) {
    require_key(item, path);
    require(seen.insert(item.name).second, "{}: '{}' is given twice", path, item.name);
    CLI::Option& option = option_of(app, item.name, path);
    if (option.count() > 0) continue;
    if (std::find(except.begin(), except.end(), item.name) != except.end()) continue;
    // A switch is true or false in a file; false is as if it were not there.
    if (option.get_expected_max() == 0) {
      require(item.inputs.size() == 1 && (item.inputs[0] == "true" || item.inputs[0] == "false"),
              "{}: '{}' is true or false", path, item.name);
      if (item.inputs[0] == "false") continue;
    }
    try {
      option.add_result(inputs_for(option, item, path));
      option.run_callback();
    } catch (const CLI::Error& error) {
      throw ConfigError(fmt::format("{}: '{}': {}", path, item.name, error.what()));
    }
  }
}

}  // namespace daso::cli
