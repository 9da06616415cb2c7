// SPDX-License-Identifier: Apache-2.0
#include "daso/record/clock_offset.h"

#include <gtest/gtest.h>

#include "run_ranks.h"

namespace daso::test {
namespace {

// Ranks that are threads share a clock, so the true offset is 0.
TEST(ClockOffset, IsWithinItsErrorOfTheTruth) {
  run_ranks({.ranks = 4}, [](World& world) {
    const std::vector<ClockOffset> offsets = clock_offsets(world);
    ASSERT_EQ(offsets.size(), 4U);
    EXPECT_EQ(offsets[0].seconds, 0);
    for (const ClockOffset& offset : offsets) {
      EXPECT_LE(std::abs(offset.seconds), offset.error);
      EXPECT_LT(offset.error, 0.1);
    }
  });
}

}  // namespace
}  // namespace daso::test
