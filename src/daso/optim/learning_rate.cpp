// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "daso/base/error.h"

namespace daso {

void validate(const WarmupCosine& options) {
  require(std::isfinite(options.peak) && options.peak >= 0,
          "the peak of the learning rate must be 0 or more, got {}", options.peak);
  require(options.warmup_steps >= 0, "the learning rate warms up for 0 steps or more, got {}",
          options.warmup_steps);
  require(options.steps >= 1, "a run has at least 1 step, got {}", options.steps);
  require(options.end >= 0 && options.end <= 1,
          "the cosine ends at a part of the peak, 0 ... 1, got {}", options.end);
}

double learning_rate(const WarmupCosine& options, std::int64_t step) {
  if (step < options.warmup_steps) {
    // Divided first: the last step gets peak * 1, without rounding.
    return options.peak *
           (static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps));
  }
  const std::int64_t length = options.steps - options.warmup_steps;
  const double done = length < 1 ? 1.0
                                 : std::min(1.0, static_cast<double>(step - options.warmup_steps) /
                                                     static_cast<double>(length));
  // Written as what is taken off the peak, so that nothing is at done == 0.
  return options.peak * (1 - (1 - options.end) * (1 - std::cos(std::numbers::pi * done)) / 2);
}

LearningRate rate_of(const WarmupCosine& options) {
  validate(options);
  return [options](std::int64_t step) { return learning_rate(options, step); };
}

Peak peak_of(const LearningRate& rate, std::int64_t steps) {
  DASO_ASSERT(steps >= 1);
  Peak peak{.rate = rate(0), .step = 0};
  for (std::int64_t step = 1; step < steps; ++step) {
    const double here = rate(step);
    if (here > peak.rate) peak = {.rate = here, .step = step};
  }
  return peak;
}

}  // namespace daso
