// SPDX-License-Identifier: Apache-2.0
// What is made from the table of settings as a whole.
#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/run/settings_table.h"

namespace daso {

std::vector<std::pair<std::string, std::string>> configuration_of(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Setting& one : settings_table()) {
    if (!one.print) continue;
    if (auto value = one.print(settings)) all.emplace_back(one.name, *std::move(value));
  }
  return all;
}

void refuse_idle(const Settings& settings, std::string_view decided_by) {
  for (const Setting& one : settings_table()) {
    for (const SettingUse& use : one.uses) {
      require(use.decided_by != decided_by || use.holds(settings) || !one.given(settings),
              "{} changes nothing here: it is for {}", one.flag(), use.users);
    }
  }
}

std::vector<std::string> replaced_keys(const Settings& settings,
                                       const std::function<bool(const Setting&)>& given_anew) {
  std::vector<std::string> keys;
  const bool preset = given_anew(setting("preset"));
  for (const Setting& one : settings_table()) {
    const bool idle = std::any_of(one.uses.begin(), one.uses.end(), [&](const SettingUse& use) {
      return given_anew(setting(use.decided_by)) && !use.holds(settings);
    });
    if (idle || (preset && one.of_preset)) keys.push_back(one.name);
    if (given_anew(one) && (!one.replaces_when || one.replaces_when(settings))) {
      keys.insert(keys.end(), one.replaces.begin(), one.replaces.end());
    }
  }
  return keys;
}

void drop_idle_strategy_flags(Settings& settings) {
  const Settings asked = settings;
  for (const Setting& one : settings_table()) {
    for (const SettingUse& use : one.uses) {
      if (use.decided_by == "strategy" && !use.holds(asked)) one.drop(settings);
    }
  }
}

std::string flags_of_state(const Settings& settings) {
  Settings all = settings;
  all.optimizer.name = optimizer_name(settings);
  std::vector<std::string> words;
  for (const Setting& one : settings_table()) {
    if (!one.of_state) continue;
    if (const auto value = one.print(all)) words.push_back(one.flag() + " " + *value);
  }
  return join(words, " ");
}

void resolve(Settings& settings, const Resolution& resolution, std::optional<SettingPart> part) {
  const Settings asked = settings;
  for (const Setting& one : settings_table()) {
    const bool used = std::all_of(one.uses.begin(), one.uses.end(),
                                  [&](const SettingUse& use) { return use.holds(asked); });
    if (one.resolve && used && part.value_or(one.part) == one.part) {
      one.resolve(settings, resolution);
    }
  }
}

}  // namespace daso
