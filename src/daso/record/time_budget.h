// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daso/comm/world.h"

namespace daso {

// Where one rank's time went, in this process; docs/measuring.md defines each.
struct TimeSpent {
  double seconds = 0;                // all of it
  double exposed_communication = 0;  // waited for
  double hidden_communication = 0;   // beneath the rest
  double data = 0;
  double evaluation = 0;
  double checkpoint = 0;

  double compute() const {
    return seconds - exposed_communication - data - evaluation - checkpoint;
  }
};

// Of each node: the mean over its ranks; on all ranks, which call it together.
std::vector<TimeSpent> time_budget(World& world, const TimeSpent& own);

// The rank that took longest for a step, and by how much more than the middle one. Time in which it
// was blocked in communication is not its own and does not count: who waits for a late rank is not
// late.
struct Late {
  int rank = 0;
  std::int64_t step = 0;
  double seconds = 0;
};

// How often a rank was late, and by how much in all.
struct Lateness {
  std::int64_t times = 0;
  double seconds = 0;
};
// What is less is not worth a word.
inline constexpr double kLateSeconds = 0.005;
void add(const Late& late, std::vector<Lateness>& by_rank);

}  // namespace daso
