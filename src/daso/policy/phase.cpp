// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/phase.h"

#include "daso/base/error.h"

namespace daso {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kWarmup:
      return "warmup";
    case Phase::kCycling:
      return "cycling";
    case Phase::kCooldown:
      break;
  }
  return "cooldown";
}

void validate(const Phases& phases) {
  require(phases.epochs >= 1, "a run has at least 1 epoch, got {}", phases.epochs);
  require(phases.warmup >= 0, "warm-up takes 0 epochs or more, got {}", phases.warmup);
  require(phases.cooldown >= 0, "cool-down takes 0 epochs or more, got {}", phases.cooldown);
}

Phase phase_of(const Phases& phases, int epoch) {
  if (epoch >= phases.epochs - phases.cooldown) return Phase::kCooldown;
  return epoch < phases.warmup ? Phase::kWarmup : Phase::kCycling;
}

}  // namespace daso
