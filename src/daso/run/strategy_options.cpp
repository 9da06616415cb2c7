// SPDX-License-Identifier: Apache-2.0
// The part of Settings that becomes the strategy.
#include <algorithm>

#include "daso/run/settings_table.h"

namespace daso {
namespace {

// An option of one strategy or schedule that another would ignore is a mistake.
void refuse_idle_flags(const Settings& options) {
  refuse_idle(options, "strategy");
  refuse_idle(options, "schedule");
}

}  // namespace

Preset preset_of(const Settings& options, int nodes) {
  Preset preset = options.preset == "paper" ? paper_preset() : default_preset(nodes);
  preset.schedule = options.schedule.value_or(preset.schedule);
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

void validate_strategy(const Settings& options) {
  refuse_idle_flags(options);
  const Preset preset = preset_of(options, 1);
  validate(preset.exchange);
  validate(preset.cadence);
}

StrategyOptions strategy_options(const Settings& options, const RunPlan& run_plan, int nodes) {
  refuse_idle_flags(options);
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
