// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/cosine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace daso {
namespace {

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
