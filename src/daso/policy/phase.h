// SPDX-License-Identifier: Apache-2.0
#pragma once

// The three parts of a run (algorithm.md 5). Blocking phases average gradients over the world in
// every step; cycling averages them within the node and exchanges parameters between nodes.
namespace daso {

enum class Phase { kWarmup, kCycling, kCooldown };

// "warmup", "cycling", "cooldown"
const char* name_of(Phase phase);

constexpr bool is_blocking(Phase phase) { return phase != Phase::kCycling; }

struct Phases {
  int epochs = 1;    // of the whole run, at least 1
  int warmup = 0;    // epochs at the beginning
  int cooldown = 0;  // epochs at the end; where both claim an epoch, it is cool-down
};

// Throws ConfigError. Warm-up and cool-down may be longer than the run.
void validate(const Phases& phases);

// Epochs count from 0.
Phase phase_of(const Phases& phases, int epoch);

}  // namespace daso
