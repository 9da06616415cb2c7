// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"
#include "daso/base/portable_math.h"

namespace daso {
namespace {

constexpr double kMostPower = 1000;  // which leaves nothing of the rate after 4 % of the run

double warming_up(const LearningRateOptions& o, std::int64_t step) {
  if (step + 1 == o.warmup_steps) return o.peak;  // itself, without rounding
  // Divided first, so that a warm-up from 0 is the peak times a part of it.
  const double part = static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps);
  return std::min(o.peak, o.start + (o.peak - o.start) * part);
}

// How much of what comes after the warm-up is over, 0 ... 1.
double done_at(const LearningRateOptions& o, std::int64_t step) {
  const std::int64_t length = o.steps - o.warmup_steps;
  if (length < 1) return 1;
  return std::min(1.0, static_cast<double>(step - o.warmup_steps) / static_cast<double>(length));
}

// The part of the peak that is left after the warm-up.
double part_at(const LearningRateOptions& o, std::int64_t step) {
  switch (o.kind) {
    case RateKind::kCosine:
      // Written as what is taken off the peak, so that nothing is at done == 0.
      return 1 - (1 - o.end) * (1 - cos_pi(done_at(o, step))) / 2;
    case RateKind::kPolynomial:
      return o.end + (1 - o.end) * real_power(1 - done_at(o, step), o.power);
    case RateKind::kStep: {
      double part = 1;
      for (const std::int64_t drop : o.drops) part *= drop <= step ? o.gamma : 1;
      return part;
    }
    case RateKind::kConstant:
    case RateKind::kPlateau:
      break;
  }
  return 1;
}

}  // namespace

std::vector<std::string> rate_kind_names() {
  return {"cosine", "step", "polynomial", "constant", "plateau"};
}

std::string name_of(RateKind kind) { return rate_kind_names().at(static_cast<std::size_t>(kind)); }

RateKind rate_kind_of(const std::string& name) {
  const std::vector<std::string> names = rate_kind_names();
  const auto found = std::find(names.begin(), names.end(), name);
  DASO_ASSERT(found != names.end());
  return static_cast<RateKind>(found - names.begin());
}

void validate(const LearningRateOptions& options) {
  require(std::isfinite(options.peak) && options.peak >= 0,
          "the peak of the learning rate must be 0 or more, got {}", options.peak);
  require(options.start >= 0 && options.start <= options.peak,
          "the learning rate warms up from 0 ... its peak {}, got {}", options.peak, options.start);
  require(options.warmup_steps >= 0, "the learning rate warms up for 0 steps or more, got {}",
          options.warmup_steps);
  require(options.steps >= 1, "a run has at least 1 step, got {}", options.steps);
  require(options.end >= 0 && options.end <= 1,
          "the learning rate ends at a part of the peak, 0 ... 1, got {}", options.end);
  require(options.power > 0 && options.power <= kMostPower,
          "the power of a polynomial learning rate must be above 0 and at most {}, got {}",
          kMostPower, options.power);
  require(options.gamma > 0 && options.gamma < 1,
          "gamma is the factor by which the learning rate falls, between 0 and 1, got {}",
          options.gamma);
  require(options.kind != RateKind::kStep || !options.drops.empty(),
          "a step schedule of the learning rate needs steps at which it falls");
  require(std::is_sorted(options.drops.begin(), options.drops.end()),
          "the steps at which the learning rate falls must come in their order");
  validate(options.stall);
}

double learning_rate(const LearningRateOptions& options, std::int64_t step) {
  if (step < options.warmup_steps) return warming_up(options, step);
  return options.peak * part_at(options, step);
}

LearningRate rate_of(const LearningRateOptions& options) {
  validate(options);
  return [options](std::int64_t step) { return learning_rate(options, step); };
}

void after_epoch(const LearningRateOptions& options, RateFactor& factor, double loss) {
  if (options.kind != RateKind::kPlateau) return;
  if (stalls(options.stall, factor.stall, loss)) factor.value *= options.gamma;
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
