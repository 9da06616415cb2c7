// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daso/run/settings.h"

// One row for every setting of a run: how it is called and written, what it may be, who uses it,
// and what it means for a run that goes on. The command line, the TOML file, the resolved
// configuration, the refusals of what would change nothing and docs/settings.md are all made from
// the rows, so that a new setting is a member of Settings and a row here. docs: CONTRIBUTING.md,
// "Add a flag".
namespace daso {

// What the settings of a run come to, once its ranks and its data are known.
struct Resolution {
  LearningRateOptions rate;
  OptimizerOptions optimizer;
  TransformerSizes transformer;
  StrategyOptions strategy;
};

// Parts of a run that commands have by themselves: `schedule` needs rates and no data.
enum class SettingPart {
  kStrategy,
  kModel,
  kBatch,
  kData,
  kRate,
  kOptimizer,
  kExchange,
  kOutput,
  kRecord
};

// A setting that counts only where another has certain values.
struct SettingUse {
  std::string decided_by;  // the other's name
  std::string users;       // "--strategy daso and local"
  std::function<bool(const Settings&)> holds;
};

struct Setting {
  std::string name;  // the flag without its dashes, and the key in a file
  std::string type;  // what help says that it takes: N, NAME, NAME,...; empty: a switch
  std::string help;
  SettingPart part = SettingPart::kStrategy;

  // From and to the text that stands on a command line and in a file; a switch takes true and
  // false. Nothing is printed of what has no value, and `print` is empty for what is no part of a
  // configuration. `parse` throws ConfigError.
  std::function<void(Settings&, const std::string& text)> parse;
  std::function<std::optional<std::string>(const Settings&)> print;

  // Another value than that of a Settings() nobody has touched; and back to that.
  std::function<bool(const Settings&)> given;
  std::function<void(Settings&)> drop;

  // Throws ConfigError for a value that is wrong whatever the others are; may be empty.
  std::function<void(const Settings&)> check;
  // Gives it the value that it has in a run, where it has been left to others; may be empty.
  std::function<void(Settings&, const Resolution&)> resolve;

  std::vector<SettingUse> uses;  // all must hold; none: it always counts

  // For a run that goes on, or does again what a file says, with this flag given anew:
  std::vector<std::string> replaces;                   // keys of the file that no longer count
  std::function<bool(const Settings&)> replaces_when;  // may be empty: always
  bool of_preset = false;  // a preset has a value for it, which another --preset brings along
  bool of_state = false;   // decides which tensors a checkpoint holds
  bool only_on_command_line = false;

  std::string flag() const { return "--" + name; }
};

// In the order of help.
const std::vector<Setting>& settings_table();
// Throws std::logic_error where there is none of this name.
const Setting& setting(std::string_view name);

// Every setting whose value decides a result, with its value, by name.
std::vector<std::pair<std::string, std::string>> configuration_of(const Settings& settings);

// Throws ConfigError for the first setting that is given and that the value of `decided_by` makes
// idle, as would be --wire by --strategy sync: nobody should believe that it did something.
void refuse_idle(const Settings& settings, std::string_view decided_by);

// What a saved configuration has and no longer counts, since settings that were given anew, and are
// in `settings`, have taken its place: an lr-end, where the lr-schedule given has none.
std::vector<std::string> replaced_keys(const Settings& settings,
                                       const std::function<bool(const Setting&)>& given_anew);

// "--optimizer sgd --precision fp32": all that decides which state a run needs.
std::string flags_of_state(const Settings& settings);

// Gives everything that counts the value which it has, for the settings of one part or of all.
void resolve(Settings& settings, const Resolution& resolution,
             std::optional<SettingPart> part = std::nullopt);

}  // namespace daso
