// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/rate.h"

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"

namespace daso {

void validate(const RateOptions& options) {
  require(options.skip >= 1, "skip must be at least 1, got {}", options.skip);
  require(std::isfinite(options.alpha) && options.alpha > 0,
          "alpha must be a learning rate above 0, got {}; the schedule's peak is a good one",
          options.alpha);
}

std::int64_t period(const RateOptions& options, const StepInfo& info) {
  const double next = info.next_rate.value_or(info.rate);
  require(std::isfinite(info.rate) && std::isfinite(next),
          "the learning rate of step {} is {} and of the next {}; the rate schedule needs finite "
          "ones",
          info.step, info.rate, next);
  if (next > info.rate) return options.skip;
  if (info.rate <= 0) return info.last + 1;
  const double ratio = options.alpha / info.rate;
  const double steps = std::floor(ratio * ratio);
  // In double, since to convert a number that does not fit is undefined.
  if (steps >= static_cast<double>(kEndless)) return kEndless;
  return std::max<std::int64_t>(options.skip, static_cast<std::int64_t>(steps));
}

}  // namespace daso
