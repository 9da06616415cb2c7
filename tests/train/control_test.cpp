// SPDX-License-Identifier: Apache-2.0
#include "daso/train/control.h"

#include <gtest/gtest.h>

#include "run_ranks.h"

namespace daso::test {
namespace {

using Steps = std::vector<std::int64_t>;

// Rank 0 wishes until it gets what it wished for, as a clock does that says "a checkpoint is due"
// until there is one. Wishes are collected in every 8th step and granted in the next 8th.
TEST(Control, GrantsAWishOnce) {
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [](World& world) {
    Control control(world);
    bool due = true;
    Steps granted;
    for (std::int64_t step = 0; step < 60; ++step) {
      if (step == 20) due = true;
      const Wish own = due && world.rank() == 0 ? Wish::kCheckpoint : Wish::kNothing;
      if (control.after_step(step, own, /*worked=*/0).wish == Wish::kNothing) continue;
      granted.push_back(step);
      due = false;
    }
    EXPECT_EQ(granted, (Steps{8, 32}));
  });
}

TEST(Control, AWishToStopIsNotLostBehindACheckpoint) {
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [](World& world) {
    Control control(world);
    std::vector<Wish> granted;
    for (std::int64_t step = 0; step <= 16; ++step) {
      Wish own = world.rank() == 0 ? Wish::kCheckpoint : Wish::kNothing;
      if (world.rank() == 1 && step >= 5) own = Wish::kStop;
      granted.push_back(control.after_step(step, own, /*worked=*/0).wish);
    }
    EXPECT_EQ(granted[8], Wish::kCheckpoint);
    EXPECT_EQ(granted[16], Wish::kStop);
  });
}

}  // namespace
}  // namespace daso::test
