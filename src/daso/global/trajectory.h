// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daso/global/cycle.h"
#include "daso/optim/learning_rate.h"

// A whole run as its schedule sees it, without ranks: which epoch does what, and when exchanges
// start.
namespace daso {

struct Course {
  std::int64_t batches = 1;               // steps of each epoch
  LearningRate rate;                      // of a step
  std::function<double(int epoch)> loss;  // mean training loss of all ranks
};

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

std::vector<EpochTrajectory> trajectory_of(Schedule schedule, Cycle cycle, const Course& course);

}  // namespace daso
