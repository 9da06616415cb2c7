// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/comm/world.h"

namespace daso::bench {

// What messages between two nodes cost, as measured by the first rank of each.
struct PairResult {
  int first_node = 0;
  int second_node = 0;
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

// Tries every pair of nodes, one after the other; called by all ranks, gives the same on all. A
// pair that cannot talk is a PeerError that names it.
std::vector<PairResult> check_pairs(World& world);

}  // namespace daso::bench
