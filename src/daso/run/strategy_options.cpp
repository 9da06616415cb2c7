// SPDX-License-Identifier: Apache-2.0
// The part of Settings that becomes the strategy.
#include <algorithm>
#include <array>

#include "daso/base/error.h"
#include "daso/run/settings.h"

namespace daso {
namespace {

bool cycles(const StrategyTraits& traits) { return traits.cycles; }
bool merges_late(const StrategyTraits& traits) { return traits.merges_late; }
bool trains_one_model(const StrategyTraits& traits) { return traits.ties != Reach::kRank; }

// A flag that only some strategies use, and of those only some schedules.
struct StrategyFlag {
  const char* name;
  const char* users;
  bool (*used_by)(const StrategyTraits& traits);
  std::optional<ScheduleKind> schedule;
  bool of_preset;  // a preset gives it a value
  bool (*given)(const Settings& options);
  void (*drop)(Settings& options);
};

constexpr const char* kCycling = "--strategy daso and local";

template <auto kMember>
constexpr StrategyFlag flag(const char* name, const char* users,
                            bool (*used_by)(const StrategyTraits& traits),
                            std::optional<ScheduleKind> schedule = std::nullopt,
                            bool of_preset = true) {
  return {name,
          users,
          used_by,
          schedule,
          of_preset,
          [](const Settings& options) { return options.*kMember != Settings().*kMember; },
          [](Settings& options) { options.*kMember = Settings().*kMember; }};
}

using O = Settings;
constexpr std::array kFlags = {
    flag<&O::sync_batchnorm>("sync-batchnorm", "strategies whose ranks train one model",
                             trains_one_model, std::nullopt, /*of_preset=*/false),
    flag<&O::preset>("preset", kCycling, cycles, std::nullopt, /*of_preset=*/false),
    flag<&O::schedule>("schedule", kCycling, cycles),
    flag<&O::skip>("skip", kCycling, cycles),
    flag<&O::wait>("wait", "--strategy daso", merges_late),
    flag<&O::merge>("merge", "--strategy daso", merges_late),
    flag<&O::wire>("wire", "--strategy daso", merges_late),
    flag<&O::exchange>("exchange", kCycling, cycles),
    flag<&O::warmup_epochs>("warmup-epochs", kCycling, cycles),
    flag<&O::cooldown_epochs>("cooldown-epochs", kCycling, cycles),
    flag<&O::alpha>("alpha", "--schedule rate", cycles, ScheduleKind::kRate),
    flag<&O::patience>("patience", "--schedule plateau", cycles, ScheduleKind::kPlateau),
    flag<&O::threshold>("threshold", "--schedule plateau", cycles, ScheduleKind::kPlateau)};

// An option of one strategy or schedule that another would ignore is a mistake.
void refuse_idle(const Settings& options, ScheduleKind schedule) {
  for (const StrategyFlag& flag : kFlags) {
    const bool used =
        flag.used_by(traits_of(options.strategy)) && flag.schedule.value_or(schedule) == schedule;
    require(used || !flag.given(options), "--{} changes nothing here: it is for {}", flag.name,
            flag.users);
  }
}

// The preset with what was asked for in its place.
Preset preset_of(const Settings& options, int nodes) {
  Preset preset = options.preset == "paper" ? paper_preset() : default_preset(nodes);
  preset.schedule = options.schedule.value_or(preset.schedule);
  refuse_idle(options, preset.schedule);
  // The preset's wait may be longer than a skip that was asked for.
  preset.cadence.skip = options.skip.value_or(preset.cadence.skip);
  preset.cadence.wait = options.wait.value_or(std::min(preset.cadence.wait, preset.cadence.skip));
  if (options.warmup_epochs) preset.warmup_epochs = options.warmup_epochs;
  preset.cooldown_epochs = options.cooldown_epochs.value_or(preset.cooldown_epochs);
  preset.exchange.merge = options.merge.value_or(preset.exchange.merge);
  preset.exchange.kind = options.exchange.value_or(preset.exchange.kind);
  // A lossy wire implies sharded, and rotating implies fp32, unless both were asked for.
  if (options.wire) {
    preset.exchange.wire = *options.wire;
    if (*options.wire != Wire::kFp32 && !options.exchange) {
      preset.exchange.kind = ExchangeKind::kSharded;
    }
  } else if (preset.exchange.kind == ExchangeKind::kRotating) {
    preset.exchange.wire = Wire::kFp32;
  }
  return preset;
}

}  // namespace

std::vector<std::string> idle_strategy_flags(const std::string& strategy) {
  std::vector<std::string> names;
  for (const StrategyFlag& flag : kFlags) {
    if (!flag.used_by(traits_of(strategy))) names.emplace_back(flag.name);
  }
  return names;
}

std::vector<std::string> idle_schedule_flags(ScheduleKind schedule) {
  std::vector<std::string> names;
  for (const StrategyFlag& flag : kFlags) {
    if (flag.schedule.value_or(schedule) != schedule) names.emplace_back(flag.name);
  }
  return names;
}

std::vector<std::string> preset_flags() {
  std::vector<std::string> names;
  for (const StrategyFlag& flag : kFlags) {
    if (flag.of_preset) names.emplace_back(flag.name);
  }
  return names;
}

void drop_idle_strategy_flags(Settings& options) {
  for (const StrategyFlag& flag : kFlags) {
    if (!flag.used_by(traits_of(options.strategy))) flag.drop(options);
  }
}

void validate_strategy(const Settings& options) {
  const Preset preset = preset_of(options, 1);
  validate(preset.exchange);
  validate(preset.cadence);
}

StrategyOptions strategy_options(const Settings& options, const RunPlan& run_plan, int nodes) {
  const Preset preset = preset_of(options, nodes);
  StrategyOptions result = options_of(preset, run_plan);
  result.name = options.strategy;
  result.exchange.seed = options.seed;
  result.bucket_elements = options.bucket_elements;
  result.finite_gradients = options.precision != Precision::kFp16;
  result.schedule.alpha = options.alpha.value_or(result.schedule.alpha);
  result.schedule.stall.patience = options.patience.value_or(result.schedule.stall.patience);
  result.schedule.stall.threshold = options.threshold.value_or(result.schedule.stall.threshold);
  return result;
}

}  // namespace daso
