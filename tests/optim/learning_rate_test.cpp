// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/learning_rate.h"

#include <gtest/gtest.h>

#include "daso/base/error.h"

namespace daso {
namespace {

TEST(LearningRate, RisesLinearlyThenFallsAsACosine) {
  const WarmupCosine options{.peak = 0.4, .warmup_steps = 20, .steps = 200};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.02);
  EXPECT_DOUBLE_EQ(learning_rate(options, 9), 0.2);
  EXPECT_EQ(learning_rate(options, 19), 0.4);
  EXPECT_EQ(learning_rate(options, 20), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 110), 0.202);     // half way: (peak + end) / 2
  EXPECT_DOUBLE_EQ(learning_rate(options, 200), 0.004);     // 1 % of the peak
  EXPECT_DOUBLE_EQ(learning_rate(options, 100000), 0.004);  // and no new beginning after it
  EXPECT_NEAR(learning_rate(options, 199), 0.004030156, 5e-10);
}

// Rounding must not move the peak into the next epoch, which would lengthen the default warm-up.
TEST(LearningRate, PeakIsExactAndAtTheEndOfWarmup) {
  for (const double peak : {0.1, 0.3, 1.0 / 3, 0.7, 1e-3, 12.8}) {
    for (std::int64_t warmup = 1; warmup < 60; ++warmup) {
      const WarmupCosine options{.peak = peak, .warmup_steps = warmup, .steps = 5 * warmup};
      const auto rate = [&](std::int64_t step) { return learning_rate(options, step); };
      const Peak found = peak_of(rate, options.steps);
      EXPECT_EQ(found.rate, peak);
      EXPECT_EQ(found.step, warmup - 1);
    }
  }
}

TEST(LearningRate, RunOfOneEpochOnlyWarmsUp) {
  const WarmupCosine options{.peak = 1, .warmup_steps = 4, .steps = 4};
  EXPECT_EQ(learning_rate(options, 0), 0.25);
  EXPECT_EQ(learning_rate(options, 3), 1);
}

TEST(LearningRate, RunWithoutWarmupStartsAtThePeak) {
  const WarmupCosine options{.peak = 1, .warmup_steps = 0, .steps = 4};
  EXPECT_EQ(learning_rate(options, 0), 1);
  EXPECT_LT(learning_rate(options, 1), 1);
}

TEST(LearningRate, PeakIsTheFirstOfTheHighest) {
  const Peak peak = peak_of([](std::int64_t step) { return step < 3 ? 0.1 : 0.5; }, 9);
  EXPECT_EQ(peak.rate, 0.5);
  EXPECT_EQ(peak.step, 3);
}

TEST(LearningRate, WrongOptionsAreRefused) {
  EXPECT_NO_THROW(validate(WarmupCosine{}));
  EXPECT_THROW(validate(WarmupCosine{.peak = -1}), ConfigError);
  EXPECT_THROW(validate(WarmupCosine{.peak = std::numeric_limits<double>::infinity()}),
               ConfigError);
  EXPECT_THROW(validate(WarmupCosine{.warmup_steps = -1}), ConfigError);
  EXPECT_THROW(validate(WarmupCosine{.steps = 0}), ConfigError);
  EXPECT_THROW(validate(WarmupCosine{.end = 2}), ConfigError);
}

}  // namespace
}  // namespace daso
