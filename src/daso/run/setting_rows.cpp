// SPDX-License-Identifier: Apache-2.0
#include "daso/run/setting_rows.h"

#include "daso/nets/make_network.h"

namespace daso::rows {
namespace {

// "a", "a and b", "a, b and c"
std::string listed(const std::vector<std::string>& names) {
  if (names.size() < 2) return join(names, "");
  const std::vector<std::string> first(names.begin(), names.end() - 1);
  return join(first, ", ") + " and " + names.back();
}

ScheduleKind schedule_of(const Settings& settings) { return preset_of(settings, 1).schedule; }

// Settings for which the setting that decides has one of these names now.
SettingUse use_of(const char* decided_by, const std::vector<std::string>& names,
                  std::string (*now)(const Settings&)) {
  return {decided_by, fmt::format("--{} {}", decided_by, listed(names)),
          [=](const Settings& settings) {
            return std::find(names.begin(), names.end(), now(settings)) != names.end();
          }};
}

SettingUse for_strategies_that(bool (*do_so)(const StrategyTraits&)) {
  std::vector<std::string> names = strategy_names();
  std::erase_if(names, [&](const std::string& name) { return !do_so(traits_of(name)); });
  std::reverse(names.begin(), names.end());  // the one that most people use comes first
  return use_of("strategy", names, [](const Settings& s) { return s.strategy; });
}

}  // namespace

SettingUse for_cycling() {
  return for_strategies_that([](const StrategyTraits& traits) { return traits.cycles; });
}

SettingUse for_late_merges() {
  return for_strategies_that([](const StrategyTraits& traits) { return traits.merges_late; });
}

SettingUse for_one_model() {
  SettingUse use =
      for_strategies_that([](const StrategyTraits& t) { return t.ties != Reach::kRank; });
  use.users = "strategies whose ranks train one model";
  return use;
}

SettingUse for_schedule(ScheduleKind kind) {
  return use_of("schedule", {name_of(kind)},
                [](const Settings& s) { return name_of(schedule_of(s)); });
}

SettingUse for_rates(const std::vector<std::string>& names) {
  return use_of("lr-schedule", names, [](const Settings& s) { return name_of(s.lr_schedule); });
}

SettingUse for_optimizers(const std::vector<std::string>& names) {
  return use_of("optimizer", names, optimizer_name);
}

SettingUse for_models(const std::vector<std::string>& names) {
  return use_of("model", names, [](const Settings& s) { return s.model; });
}

SettingUse for_dropout() {
  std::vector<std::string> names = network_names();
  std::erase_if(names, [](const std::string& name) { return !has_dropout(name); });
  std::reverse(names.begin(), names.end());
  return for_models(names);
}

}  // namespace daso::rows
