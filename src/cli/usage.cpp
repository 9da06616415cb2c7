// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
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
    return fmt::format("'{}' has no command '{}'{}; there are: {}", full_name(app), word,
                       did_you_mean(word, commands), join(commands, ", "));
  }
  return fmt::format("'{}' does not take '{}'{}", full_name(app), word,
                     app.get_name() == "run" ? "; write the program after --" : "");
}

}  // namespace

const CLI::App& reached(const CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  return named.empty() ? app : reached(*named.back());
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

std::string misunderstood(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  if (!words.empty()) return explain(app, first_strange(words));
  for (const CLI::App* command : app.get_subcommands()) {
    if (std::string text = misunderstood(*command); !text.empty()) return text;
  }
  return "";
}

}  // namespace daso
