// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/stall.h"

#include <gtest/gtest.h>

#include <cmath>

#include "daso/base/error.h"

namespace daso {
namespace {

TEST(Stall, FirstFiniteLossIsProgress) {
  StallState state;
  EXPECT_FALSE(stalls({.patience = 0}, state, 1e300));
  EXPECT_EQ(state, (StallState{.best = 1e300, .bad_epochs = 0}));
  StallState other;
  EXPECT_TRUE(stalls({.patience = 0}, other, std::numeric_limits<double>::infinity()));
}

TEST(Stall, LossAtTheThresholdIsNoProgress) {
  // Powers of two, so that the products are exact.
  const StallOptions options{.patience = 9, .threshold = 0.5};
  StallState state{.best = 8};
  stalls(options, state, 4);
  EXPECT_EQ(state, (StallState{.best = 8, .bad_epochs = 1}));
  stalls(options, state, std::nextafter(4.0, 0.0));
  EXPECT_EQ(state.bad_epochs, 0);
}

TEST(Stall, NegativeLossMustFallByTheThresholdToo) {
  const StallOptions options{.patience = 9, .threshold = 0.5};
  StallState state{.best = -8};
  for (const double loss : {-4.0, -8.0, -12.0}) stalls(options, state, loss);
  EXPECT_EQ(state, (StallState{.best = -8, .bad_epochs = 3}));
  stalls(options, state, -12.5);
  EXPECT_EQ(state, (StallState{.best = -12.5, .bad_epochs = 0}));
}

TEST(Stall, BestStaysWhenTheLossStalls) {
  StallState state{.best = 1};
  EXPECT_TRUE(stalls({.patience = 0}, state, 2));
  EXPECT_EQ(state, (StallState{.best = 1, .bad_epochs = 0}));
}

TEST(Stall, WrongOptionsAreRefused) {
  EXPECT_NO_THROW(validate(StallOptions{}));
  EXPECT_THROW(validate(StallOptions{.patience = -1}), ConfigError);
  EXPECT_THROW(validate(StallOptions{.threshold = 1}), ConfigError);
  EXPECT_THROW(validate(StallOptions{.threshold = std::nan("")}), ConfigError);
}

}  // namespace
}  // namespace daso
