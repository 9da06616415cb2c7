// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daso/policy/cycle.h"
#include "daso/policy/run_plan.h"

// A whole run as its schedule sees it, without ranks: which epoch does what, and when exchanges
// start.
namespace daso {

struct EpochTrajectory {
  struct Start {
    std::int64_t step = 0;  // of the run
    std::int64_t skip = 0;  // not cut at the epoch's end
    bool operator==(const Start&) const = default;
  };
  EpochPlan plan;
  std::vector<Start> starts;
  std::int64_t exchanges = 0;   // starts and agreement
  std::int64_t agreements = 0;  // 0 or 1
};

// Mean training loss of all ranks in an epoch.
using EpochLoss = std::function<double(int epoch)>;

std::vector<EpochTrajectory> trajectory_of(Schedule schedule, Cycle cycle, const RunPlan& run_plan,
                                           const EpochLoss& loss);

}  // namespace daso
