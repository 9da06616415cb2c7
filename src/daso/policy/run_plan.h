// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/learning_rate.h"
#include "daso/policy/cadence.h"

namespace daso {

// A run as a sequence of steps, known in advance and equal on all ranks.
struct RunPlan {
  int epochs = 1;
  std::int64_t batches = 1;  // steps of each epoch
  LearningRate rate;         // of a step; the schedule looks one step ahead

  std::int64_t steps() const { return epochs * batches; }
  StepInfo at(int epoch, std::int64_t batch) const;
};

}  // namespace daso
