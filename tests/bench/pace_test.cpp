// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bench/emulated_model.h"

namespace daso::bench {
namespace {

constexpr int kNodes = 4;
constexpr int kLast = kNodes - 1;
constexpr std::int64_t kSteps = 20'000;

// The first three outputs of splitmix64 from seed 0, as its authors' own program gives them.
TEST(Pace, DrawsAreThoseOfSplitmix64) {
  EXPECT_EQ(uniform(0), static_cast<double>(0xe220a8397b1dcdafULL >> 11) / 0x1p53);
  EXPECT_EQ(uniform(1), static_cast<double>(0x6e789e6aa1b965f4ULL >> 11) / 0x1p53);
  EXPECT_EQ(uniform(2), static_cast<double>(0x06c45d188009454fULL >> 11) / 0x1p53);
}

TEST(Pace, WithoutAskingNothingIsUneven) {
  for (int node = 0; node < kNodes; ++node) {
    const Pace pace = pace_of({}, kNodes, node, 7);
    EXPECT_EQ(pace.stretch, 1);
    EXPECT_EQ(pace.stall, Seconds(0));
  }
}

TEST(Pace, NoiseSlowsTheLastNodeFromNothingToTwiceItsMean) {
  const PaceOptions options{.noise = 0.2};
  double sum = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(pace_of(options, kNodes, 0, step).stretch, 1);
    const double stretch = pace_of(options, kNodes, kLast, step).stretch;
    ASSERT_GE(stretch, 1);
    ASSERT_LT(stretch, 1.4);
    sum += stretch;
  }
  // The standard error of this mean is 0.4 / sqrt(12 * 20000) = 0.0008.
  EXPECT_NEAR(sum / kSteps, 1.2, 0.004);
}

TEST(Pace, EveryNodeStallsAtItsOwnTimes) {
  const PaceOptions options{.stall_chance = 0.05, .stall = Seconds(0.5)};
  int together = 0;
  for (int node = 0; node < kNodes; ++node) {
    int stalls = 0;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const bool stalled = pace_of(options, kNodes, node, step).stall == Seconds(0.5);
      stalls += stalled ? 1 : 0;
      if (stalled && pace_of(options, kNodes, (node + 1) % kNodes, step).stall > Seconds(0)) {
        ++together;
      }
    }
    // 1000 are expected; the standard deviation is sqrt(20000 * 0.05 * 0.95) = 31.
    EXPECT_NEAR(stalls, 1000, 155);
  }
  EXPECT_NEAR(together, 200, 71);  // 4 * 20000 * 0.05²; deviation 14
}

TEST(Pace, AnotherSeedDrawsOtherwise) {
  const PaceOptions one{.noise = 0.2, .seed = 1};
  const PaceOptions two{.noise = 0.2, .seed = 2};
  EXPECT_NE(pace_of(one, kNodes, kLast, 5).stretch, pace_of(two, kNodes, kLast, 5).stretch);
}

}  // namespace
}  // namespace daso::bench
