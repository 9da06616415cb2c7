// SPDX-License-Identifier: Apache-2.0
#include "daso/run/control.h"

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
      const Request own = due && world.rank() == 0 ? Request::kCheckpoint : Request::kNothing;
      if (control.after_step(step, own, /*worked=*/0).request == Request::kNothing) continue;
      granted.push_back(step);
      due = false;
    }
    EXPECT_EQ(granted, (Steps{8, 32}));
  });
}

TEST(Control, AWishToStopIsNotLostBehindACheckpoint) {
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [](World& world) {
    Control control(world);
    std::vector<Request> granted;
    for (std::int64_t step = 0; step <= 16; ++step) {
      Request own = world.rank() == 0 ? Request::kCheckpoint : Request::kNothing;
      if (world.rank() == 1 && step >= 5) own = Request::kStop;
      granted.push_back(control.after_step(step, own, /*worked=*/0).request);
    }
    EXPECT_EQ(granted[8], Request::kCheckpoint);
    EXPECT_EQ(granted[16], Request::kStop);
  });
}

}  // namespace
}  // namespace daso::test
