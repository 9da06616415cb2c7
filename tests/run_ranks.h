// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daso/comm/world.h"

// Ranks as threads of the test's own process, meeting over a real store on loopback.
namespace daso::test {

struct RankOptions {
  int ranks = 2;
  std::vector<std::string> nodes;  // node of each rank; empty: all on node "a"
  Seconds limit{20};
  bool check_collectives = false;
  // Changes what one rank joins with; for tests of ranks that differ.
  std::function<void(WorldOptions&)> edit;
};

// Runs the body on every rank and waits for all. What a body throws is thrown here, the lowest
// rank's first. A body that does not end within the limit and half a minute aborts the test.
void run_ranks(const RankOptions& options, const std::function<void(World&)>& body);

// The same for bodies that join by themselves; what they throw is returned by rank.
std::vector<std::exception_ptr> run_places(const RankOptions& options,
                                           const std::function<void(const WorldOptions&)>& body);

std::string text_of(const std::exception_ptr& error);  // "" for none
int exit_code_of(const std::exception_ptr& error);     // 0 for none

}  // namespace daso::test
