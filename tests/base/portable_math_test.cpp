// SPDX-License-Identifier: Apache-2.0
#include "daso/base/portable_math.h"

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

TEST(Cosine, IsExactWhereItCanBe) {
  EXPECT_EQ(cos_pi(0), 1);
  EXPECT_EQ(cos_pi(0.5), 0);
  EXPECT_EQ(cos_pi(1), -1);
}

// std::cos of the wider type, since pi * part in double is off by more than the bound.
TEST(Cosine, IsRightToTheLastBitButOne) {
  constexpr int kParts = 30011;  // a prime: no part but 0 and 1 is a short binary number
  for (int i = 0; i <= kParts; ++i) {
    const double part = static_cast<double>(i) / kParts;
    const long double expected =
        std::cos(std::numbers::pi_v<long double> * static_cast<long double>(part));
    ASSERT_LE(std::abs(static_cast<long double>(cos_pi(part)) - expected), 2e-16L) << part;
  }
}

TEST(Cosine, FallsAllTheWay) {
  double before = cos_pi(0);
  for (int i = 1; i <= 100000; ++i) {
    const double here = cos_pi(i / 100000.0);
    ASSERT_LT(here, before) << i;
    before = here;
  }
}

}  // namespace
}  // namespace daso
