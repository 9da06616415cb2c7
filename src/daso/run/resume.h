// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "daso/policy/run_plan.h"
#include "daso/run/run.h"

// What a session goes on with, and whether it can.
namespace daso {

struct Resumption {
  RunState state;            // what this rank goes on with
  std::string from;          // a checkpoint, or memory, as messages call it
  bool other_ranks = false;  // the state is rank 0's, of another number of ranks or nodes
  bool newest = false;       // it is the newest checkpoint of the run's own folder
};

// What a session before has left in memory, else the checkpoint that the settings ask for; none:
// the run begins. All ranks of the world call it together, before one of them enters the run.
// Throws ConfigError where the ranks would not go on from the same place.
std::optional<Resumption> find_resumption(World& world, const Run& run);

// Refuses what its numbers would mean something else in, or what cannot go on with this plan or
// these ranks. Throws ConfigError. Rank 0 warns where others go on than those that stopped.
void require_fit(const Resumption& resumption, const Run& run, const RunPlan& plan,
                 const World& world);

// Whether the strategy's own state is to be taken up: another one begins anew.
bool has_same_strategy(const RunState& state, const Settings& settings);

}  // namespace daso
