// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daso/optim/learning_rate.h"

// A run as a sequence of steps, known in advance and equal on all ranks.
namespace daso {

// Beyond the end of any run, and exact in double: the `last` of an epoch without end, and the
// longest period that is told apart.
inline constexpr std::int64_t kEndless = std::int64_t{1} << 53;

// A step that has just been done. Equal on all ranks, known without asking any.
struct StepInfo {
  int epoch = 0;                    // counts from 0
  std::int64_t step = 0;            // t: of the run, from 0
  std::int64_t batch = 0;           // b: of the epoch, from 0
  std::int64_t last = 0;            // the epoch's last b
  double rate = 0;                  // learning rate of this step, first parameter group
  std::optional<double> next_rate;  // of the step after it; none after the run's last
};

struct RunPlan {
  int epochs = 1;
  std::int64_t batches = 1;            // steps of each epoch
  LearningRate rate;                   // of a step; the schedule looks one step ahead
  std::int64_t most_steps = kEndless;  // the run ends after so many; its last epoch is then shorter

  std::int64_t steps() const { return epochs * batches; }  // that the rate is planned for
  std::int64_t end() const { return std::min(steps(), most_steps); }  // those that are done
  StepInfo at(int epoch, std::int64_t batch) const;
};

}  // namespace daso
