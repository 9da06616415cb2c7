// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso::cli {
namespace {

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// A flag counts more than the words after it, which may be its values.
std::string first_strange(const std::vector<std::string>& words) {
  const auto flag = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return word.starts_with('-'); });
  return flag == words.end() ? words.front() : *flag;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::optional<std::string> meant = nearest(word, candidates);
  return meant ? fmt::format("; did you mean {}?", *meant) : "";
}

std::string explain(const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) {
    const std::string flag = word.substr(0, word.find('='));
    return fmt::format("'{}' has no flag {}{}", full_name(app), flag,
                       did_you_mean(flag, flags_of(app)));
  }
  const std::vector<std::string> commands = commands_of(app);
  if (!commands.empty()) {
    return fmt::format("'{}' has no command '{}', only {}{}", full_name(app), word,
                       join(commands, ", "), did_you_mean(word, commands));
  }
  return fmt::format("'{}' does not take '{}'{}", full_name(app), word,
                     app.get_name() == "run" ? "; write the program after --" : "");
}

}  // namespace

const CLI::App& reached(const CLI::App& app) {
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) innermost = innermost->get_subcommands().back();
  return *innermost;
}

std::string full_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* parent = app.get_parent(); parent != nullptr;
       parent = parent->get_parent()) {
    name.insert(0, parent->get_name() + " ");
  }
  return name;
}

std::string misunderstood(const CLI::App& app) {
  // From the innermost command outwards, since each keeps the words that it did not understand.
  for (const CLI::App* one = &reached(app); one != nullptr; one = one->get_parent()) {
    const std::vector<std::string> words = one->remaining();
    if (!words.empty()) return explain(*one, first_strange(words));
  }
  return "";
}

std::string missing_command(const CLI::App& app) {
  return fmt::format("'{}' needs a command: {}", full_name(app), join(commands_of(app), ", "));
}

}  // namespace daso::cli
