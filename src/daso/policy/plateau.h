// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/stall.h"
#include "daso/policy/cadence.h"

// The schedule of the paper (algorithm.md 5, `plateau`): exchanges come more often each time the
// training loss has stalled, and start over when they cannot come more often.
namespace daso {

struct PlateauState {
  StallState stall;
  Cadence cadence;  // of the next epoch of cycling
  bool operator==(const PlateauState&) const = default;
};

// Both halved by integer division, never below 1; from skip 1 back to the initial pair.
Cadence after_stall(const Cadence& now, const Cadence& initial);

}  // namespace daso
