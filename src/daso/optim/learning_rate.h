// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

// The learning rate as a function of the step, so that one can look ahead.
namespace daso {

// Of a step of the run, counted from 0.
using LearningRate = std::function<double(std::int64_t step)>;

struct WarmupCosine {
  double peak = 0.1;
  std::int64_t warmup_steps = 1;  // W: mostly the steps of one epoch
  std::int64_t steps = 1;         // T: of the run
  double end = 0.01;              // where the cosine ends, as a part of the peak
};

// Throws ConfigError.
void validate(const WarmupCosine& options);

// peak (step + 1) / warmup_steps before warmup_steps, then a cosine in
// (step - warmup_steps) / (steps - warmup_steps) from the peak to `end` of it; stays there.
// The peak is reached exactly, at the last step of the warm-up, and never exceeded.
double learning_rate(const WarmupCosine& options, std::int64_t step);

// The same as a function. Throws ConfigError.
LearningRate rate_of(const WarmupCosine& options);

struct Peak {
  double rate = 0;
  std::int64_t step = 0;  // the first that has it
};

// The highest rate of the first `steps` steps, which are at least 1.
Peak peak_of(const LearningRate& rate, std::int64_t steps);

}  // namespace daso
