// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daso/policy/exchange_options.h"
#include "daso/policy/schedule.h"

// What a run does where no flag says otherwise (algorithm.md 5, end).
namespace daso {

struct Preset {
  ExchangeOptions exchange;
  ScheduleKind schedule = ScheduleKind::kRate;
  Cadence cadence;
  std::optional<int> warmup_epochs;  // none: to the end of the epoch in which the rate peaks
  int cooldown_epochs = 0;
};

Preset default_preset(int nodes);
// The published algorithm.
Preset paper_preset();

// Warm-up to the end of the epoch in which the learning rate reaches its peak.
int warmup_epochs_until(std::int64_t peak_step, std::int64_t batches);

// What is known to cost accuracy.
struct Risks {
  int nodes = 1;
  ScheduleKind schedule = ScheduleKind::kRate;
  Cadence cadence;
  bool adamw = false;
  Wire wire = Wire::kInt8;
};

// What to say before a run with `daso` starts: one sentence each, nothing where nothing is known
// to be wrong (algorithm.md 4, end).
std::vector<std::string> warnings_for(const Risks& risks);

}  // namespace daso
