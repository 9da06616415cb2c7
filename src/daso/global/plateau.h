// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "daso/global/cadence.h"

// The schedule of the paper (algorithm.md 5, `plateau`): exchanges come more often each time the
// training loss has stalled, and start over when they cannot come more often.
namespace daso {

struct StallOptions {
  int patience = 2;         // epochs without progress that are forgiven
  double threshold = 0.05;  // relative fall of the loss that counts as progress, 0 ... below 1
};

// Throws ConfigError.
void validate(const StallOptions& options);

struct StallState {
  double best = std::numeric_limits<double>::infinity();
  int bad_epochs = 0;  // in a row, none better than best
  bool operator==(const StallState&) const = default;
};

// Takes the loss of one more epoch; true when it has stalled. NaN is never progress.
bool stalls(const StallOptions& options, StallState& state, double loss);

struct PlateauState {
  StallState stall;
  Cadence cadence;  // of the next epoch of cycling
  bool operator==(const PlateauState&) const = default;
};

// Both halved by integer division, never below 1; from skip 1 back to the initial pair.
Cadence after_stall(const Cadence& now, const Cadence& initial);

}  // namespace daso
