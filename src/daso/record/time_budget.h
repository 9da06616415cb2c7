// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "daso/comm/world.h"

namespace daso {

// Where one rank's time went, in this process: the kinds of time, defined here and nowhere else.
// Each but the hidden one is time of the training thread, counted by the timed spans of a track of
// the world's timeline; no second counts twice.
struct TimeSpent {
  int node = 0;                                    // whose it is, as it was started
  double seconds = 0;                              // all of it, from the first step to the end
  double exposed_communication = 0;                // blocked in communication: Timeline::waited()
  std::array<double, kCauses> exposed_by_cause{};  // adds up to it
  double hidden_communication = 0;  // threads beneath were busy with it, less the wait for them
  double data = 0;                  // waiting for a batch: Track::kData
  double evaluation = 0;            // of the test part, without the waits in it: kEvaluation
  double checkpoint = 0;            // taking them and waiting for the last: kCheckpoint

  // All the rest.
  double compute() const {
    return seconds - exposed_communication - data - evaluation - checkpoint;
  }
};

// Of each node: the mean over its ranks; on all ranks, which call it together.
std::vector<TimeSpent> time_budget(World& world, const TimeSpent& own);

}  // namespace daso
