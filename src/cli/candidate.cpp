// SPDX-License-Identifier: Apache-2.0
#include "cli/candidate.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/run/settings_table.h"
#include "daso/strategy/strategy.h"

namespace daso::cli {
namespace {

// Those that are the comparison's, not one candidate's.
constexpr std::array<std::string_view, 3> kCommon = {"strategy", "seed", "out"};

bool is_own(const Setting& one) {
  return !one.only_on_command_line &&
         std::find(kCommon.begin(), kCommon.end(), one.name) == kCommon.end();
}

const Setting& flag_of(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const Setting& one : settings_table()) {
    if (one.name == name) {
      require(is_own(one), "{}: --{} cannot differ between candidates: give it to all", where,
              name);
      return one;
    }
    if (is_own(one)) names.push_back(one.name);
  }
  const auto meant = nearest(name, names);
  throw ConfigError(fmt::format("{}: there is no flag --{}{}", where, name,
                                meant ? fmt::format("; did you mean {}?", *meant) : ""));
}

// skip=8, a switch's name alone, or a preset's.
std::pair<std::string, std::string> parse_flag(const std::string& word, const std::string& strategy,
                                               const std::string& where) {
  const std::size_t equals = word.find('=');
  if (equals != std::string::npos) {
    const std::string name = word.substr(0, equals);
    return {flag_of(name, where).name, word.substr(equals + 1)};
  }
  const std::vector<Setting>& table = settings_table();
  const bool is_switch = std::any_of(table.begin(), table.end(), [&](const Setting& one) {
    return one.name == word && one.type.empty();
  });
  if (is_switch) return {flag_of(word, where).name, "true"};
  require(word == "default" || word == "paper",
          "{}: there is no preset '{}', only default and paper; flags are written as name=value",
          where, word);
  require(word == "default" || traits_of(strategy).merges_late, "{}: presets are daso's", where);
  return {"preset", word};
}

Candidate parse_candidate(const std::string& flag, const std::string& label) {
  std::vector<std::string> words = split(label, ':');
  const std::string where = fmt::format("{}: '{}'", flag, label);
  Candidate one{.label = label, .strategy = words.front(), .flags = {}, .folder = ""};
  const std::vector<std::string> names = strategy_names();
  if (std::find(names.begin(), names.end(), one.strategy) == names.end()) {
    throw ConfigError(fmt::format(
        "{}: there is no strategy '{}'; did you mean {}? There are {}", flag, one.strategy,
        nearest(one.strategy, names).value_or(names.front()), join(names, ", ")));
  }
  words.erase(words.begin());
  for (const std::string& word : words) {
    const auto own = parse_flag(word, one.strategy, where);
    for (const auto& [name, value] : one.flags) {
      require(name != own.first, "{} gives --{} twice", where, name);
    }
    one.flags.push_back(own);
  }
  return one;
}

// What a shell and a URL take as it is, and no longer than a file system allows.
std::string folder_name(const std::string& label) {
  constexpr std::size_t kLongest = 100;
  std::string name = label.substr(0, kLongest);
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("._=+").find(c) != std::string_view::npos;
    if (!plain) c = '-';
  }
  return name;
}

}  // namespace

std::vector<Candidate> parse_candidates(const std::string& flag, const std::string& text) {
  std::vector<Candidate> candidates;
  for (const std::string& label : split(text, ',')) {
    Candidate one = parse_candidate(flag, label);
    one.folder = folder_name(label);
    for (const Candidate& other : candidates) {
      require(other.label != label, "{} names '{}' twice", flag, label);
      if (other.folder == one.folder) one.folder += fmt::format("-{}", candidates.size() + 1);
    }
    candidates.push_back(std::move(one));
  }
  require(!candidates.empty(), "{} names no strategy", flag);
  return candidates;
}

Settings settings_of(const Candidate& candidate, const Settings& job) {
  Settings settings = job;
  settings.strategy = candidate.strategy;
  drop_idle_strategy_flags(settings);
  for (const auto& [name, value] : candidate.flags) {
    try {
      setting(name).parse(settings, value);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("'{}': {}", candidate.label, error.what()));
    }
  }
  const auto is_own = [&](const Setting& one) {
    return std::any_of(candidate.flags.begin(), candidate.flags.end(),
                       [&](const auto& own) { return own.first == one.name; });
  };
  // As for a run that goes on: what a flag of its own replaces of the job's does not count. A
  // preset replaces nothing; the job's flags hold for all presets.
  const auto replaces = [&](const Setting& one) { return is_own(one) && one.name != "preset"; };
  for (const std::string& key : replaced_keys(settings, replaces)) {
    if (!is_own(setting(key))) setting(key).drop(settings);
  }
  return settings;
}

Candidate bound() { return parse_candidates("bound", "node").front(); }

}  // namespace daso::cli
