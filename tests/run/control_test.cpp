// SPDX-License-Identifier: Apache-2.0
#include "daso/run/control.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "run_ranks.h"

namespace daso::test {
namespace {

using Steps = std::vector<std::int64_t>;
constexpr StepSeconds kQuick{.whole = 0.001, .worked = 0.001};

// Rank 0 wishes until it gets what it wished for, as a clock does that says "a checkpoint is due"
// until there is one. Wishes are collected after steps 0, 1, 2, 4 and then every 8th, and granted
// when the next ones are.
TEST(Control, GrantsAWishOnce) {
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [](World& world) {
    Control control(world);
    bool due = true;
    Steps granted;
    for (std::int64_t step = 0; step < 60; ++step) {
      if (step == 20) due = true;
      const Request own = due && world.rank() == 0 ? Request::kCheckpoint : Request::kNothing;
      if (control.after_step(step, own, kQuick).request == Request::kNothing) continue;
      granted.push_back(step);
      due = false;
    }
    EXPECT_EQ(granted, (Steps{1, 32}));
  });
}

TEST(Control, AWishToStopIsNotLostBehindACheckpoint) {
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [](World& world) {
    Control control(world);
    std::vector<Request> granted;
    for (std::int64_t step = 0; step <= 16; ++step) {
      Request own = world.rank() == 0 ? Request::kCheckpoint : Request::kNothing;
      if (world.rank() == 1 && step >= 3) own = Request::kStop;
      granted.push_back(control.after_step(step, own, kQuick).request);
    }
    EXPECT_EQ(granted[4], Request::kCheckpoint);
    EXPECT_EQ(granted[8], Request::kStop);
  });
}

// From the end of the step in which rank 1 begins to wish to the step at which all stop, at worst.
std::int64_t longest_stop(double slow_step) {
  std::int64_t longest = 0;
  for (std::int64_t wished = 16; wished < 24; ++wished) {
    std::atomic<std::int64_t> stopped{-1};
    run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&](World& world) {
      Control control(world);
      for (std::int64_t step = 0; step < 64; ++step) {
        const bool slow = world.rank() == 0;
        const Request own =
            world.rank() == 1 && step >= wished ? Request::kStop : Request::kNothing;
        const StepSeconds seconds{.whole = slow ? slow_step : 0.001, .worked = 0.001};
        if (control.after_step(step, own, seconds).request == Request::kNothing) continue;
        if (world.rank() == 0) stopped = step;
        return;
      }
    });
    EXPECT_GE(stopped, wished);
    longest = std::max(longest, stopped - wished);
  }
  return longest;
}

// The step in which the wish comes counts as well: the signal may have come at its beginning.
TEST(Control, StopsWithinTwoStepsOrTenSeconds) {
  EXPECT_EQ(longest_stop(0.01) + 1, 16);  // as rarely as it may be
  EXPECT_EQ(longest_stop(1) + 1, 8);
  EXPECT_EQ(longest_stop(2) + 1, 4);
  EXPECT_EQ(longest_stop(3.5) + 1, 2);
  EXPECT_EQ(longest_stop(60) + 1, 2);
}

// Nodes enter a view where they were. Here the one ahead waits, in its first step there, for an
// exchange that the other begins some steps later.
TEST(Control, ARankThatIsBehindDoesNotWaitForOneThatWaitsForIt) {
  constexpr std::int64_t kFurthest = 5;
  std::promise<void> has_caught_up;
  run_ranks({.ranks = 2, .nodes = {"a", "b"}, .limit = Seconds(5)}, [&](World& world) {
    Control control(world, kFurthest);
    const bool behind = world.rank() == 0;
    Steps granted;
    for (std::int64_t step = behind ? 0 : kFurthest; step < 20; ++step) {
      if (step == kFurthest && behind) has_caught_up.set_value();
      if (step == kFurthest && !behind) {
        ASSERT_EQ(has_caught_up.get_future().wait_for(world.limit()), std::future_status::ready);
      }
      const Request own = behind && granted.empty() ? Request::kCheckpoint : Request::kNothing;
      if (control.after_step(step, own, kQuick).request == Request::kCheckpoint) {
        granted.push_back(step);
      }
    }
    EXPECT_EQ(granted, Steps{kFurthest + 1});
  });
}

}  // namespace
}  // namespace daso::test
