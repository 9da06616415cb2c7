// SPDX-License-Identifier: Apache-2.0
#include "daso/base/power.h"

#include <gtest/gtest.h>

#include <cmath>

namespace daso {
namespace {

TEST(Power, IsExactWhereSquaresAndRootsAre) {
  EXPECT_EQ(power(0.5, 3), 0.125);
  EXPECT_EQ(power(0.5, 0), 1);
  EXPECT_EQ(real_power(0.5, 3), 0.125);
  EXPECT_EQ(real_power(0.25, 0.5), 0.5);
  EXPECT_EQ(real_power(0.0625, 0.75), 0.125);  // 0.25 * 0.5
  EXPECT_EQ(real_power(0.25, 2.5), 0.03125);
  EXPECT_EQ(real_power(16, 0.75), 8);
  for (const double exponent : {0.1, 0.9, 1.0, 2.7, 1000.0}) {
    EXPECT_EQ(real_power(0, exponent), 0);
    EXPECT_EQ(real_power(1, exponent), 1);
  }
}

// At most 53 factors, each off by three roundings, its product's included: 2e-14 of the value.
TEST(Power, OfARealExponentIsNearStdPow) {
  for (const double exponent : {1e-9, 0.1, 1.0 / 3, 0.5, 0.9, 1.5, 2.7, 9.99}) {
    for (int i = 1; i <= 2000; ++i) {
      const double expected = std::pow(i / 1000.0, exponent);
      ASSERT_NEAR(real_power(i / 1000.0, exponent), expected, 2e-14 * expected)
          << i << " " << exponent;
    }
  }
}

}  // namespace
}  // namespace daso
