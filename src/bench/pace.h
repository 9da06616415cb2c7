// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daso/base/seconds.h"

namespace daso::bench {

// What makes the nodes of an emulated job uneven.
struct PaceOptions {
  double noise = 0;         // mean share by which the last node computes longer
  double stall_chance = 0;  // that a node pauses before a step
  Seconds stall{0.5};       // how long it does
  std::uint64_t seed = 1;
};

// Of one node in one step.
struct Pace {
  double stretch = 1;  // of forward and backward
  Seconds stall{0};    // before them
};

// Comes from seed, node and step alone: all ranks of a node, every strategy and every other program
// that draws in this way (bench/peers/pace.py) meet the same.
Pace pace_of(const PaceOptions& options, int nodes, int node, std::int64_t step);

// 0 up to 1, exclusively: splitmix64 (Steele, Lea, Flood) of a counter.
double uniform(std::uint64_t counter);

}  // namespace daso::bench
