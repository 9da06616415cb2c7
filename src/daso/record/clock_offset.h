// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/comm/world.h"

namespace daso {

// What another rank's clock shows when rank 0's shows 0, and how far that may be off.
struct ClockOffset {
  double seconds = 0;
  double error = 0;  // half of the quickest round trip
};

// Of all ranks, on all ranks. Rank 0 asks each in turn for its time, several times; the quickest
// answer counts, as the network delayed it least. All ranks call it together.
std::vector<ClockOffset> clock_offsets(World& world);

}  // namespace daso
