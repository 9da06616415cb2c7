// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/policy/cadence.h"

// The period that follows the learning rate (algorithm.md 5, `rate`; after QSR, arXiv 2310.14423):
// short while the rate is high, long at the end of the run.
namespace daso {

struct RateOptions {
  int skip = 4;      // the shortest period
  double alpha = 0;  // the rate below which periods grow beyond 1; mostly the peak; above 0
};

// Throws ConfigError.
void validate(const RateOptions& options);

// The skip of the round that begins with a start after this step:
//   max(skip, floor((alpha / when.rate)^2))
// While the rate is still rising it is skip; with a rate of 0 or less it is the whole epoch. It is
// not cut at the epoch's end, but at kEndless. Throws ConfigError where a rate is not finite.
std::int64_t period(const RateOptions& options, const StepInfo& info);

}  // namespace daso
