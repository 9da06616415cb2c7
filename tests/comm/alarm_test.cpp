// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/alarm.h"

#include <gtest/gtest.h>

#include <thread>

namespace daso {
namespace {

const auto kNever = [] { return false; };

TEST(Alarm, WakesWhoWaitsWhenSomethingChanges) {
  Alarm alarm;
  bool done = false;
  const std::jthread other([&] { alarm.change([&] { done = true; }); });
  EXPECT_EQ(alarm.wait([&] { return done; }, Deadline(Seconds(10))), Alarm::Outcome::kDone);
}

TEST(Alarm, WakesWhoWaitsWhenItIsRaised) {
  Alarm alarm;
  const std::jthread other([&] { alarm.raise({.text = "fire"}); });
  EXPECT_EQ(alarm.wait(kNever, Deadline(Seconds(10))), Alarm::Outcome::kRaised);
  EXPECT_EQ(alarm.raised()->text, "fire");
}

TEST(Alarm, IsLateAfterItsLimit) {
  Alarm alarm;
  EXPECT_EQ(alarm.wait(kNever, Deadline(Seconds(0.01))), Alarm::Outcome::kLate);
}

TEST(Alarm, PrefersWhatIsDoneToBadNews) {
  Alarm alarm;
  alarm.raise({.text = "fire"});
  EXPECT_EQ(alarm.wait([] { return true; }, Deadline(Seconds(1))), Alarm::Outcome::kDone);
}

TEST(Alarm, KeepsTheFirstFailure) {
  Alarm alarm;
  alarm.raise({.text = "first"});
  alarm.raise({.text = "second"});
  EXPECT_EQ(alarm.raised()->text, "first");
}

TEST(Alarm, CallsActionsOnceAndOnlyWhileTheyAreWanted) {
  Alarm alarm;
  int wanted = 0;
  int unwanted = 0;
  alarm.on_raise([&](const Failure&) { ++wanted; });
  alarm.forget(alarm.on_raise([&](const Failure&) { ++unwanted; }));
  alarm.raise({});
  alarm.raise({});
  EXPECT_EQ(wanted, 1);
  EXPECT_EQ(unwanted, 0);
  alarm.on_raise([&](const Failure&) { ++wanted; });  // comes late: at once
  EXPECT_EQ(wanted, 2);
}

TEST(RunUnlessRaised, ReturnsWhatTheTaskDid) {
  const auto alarm = std::make_shared<Alarm>();
  const auto result = std::make_shared<int>(0);
  EXPECT_TRUE(run_unless_raised(
      *alarm, [result] { *result = 7; }, Deadline(Seconds(10))));
  EXPECT_EQ(*result, 7);
  EXPECT_THROW(run_unless_raised(
                   *alarm, [] { throw std::runtime_error("no"); }, Deadline(Seconds(10))),
               std::runtime_error);
}

TEST(RunUnlessRaised, LeavesAStuckTaskBehind) {
  const auto alarm = std::make_shared<Alarm>();
  const auto gate = std::make_shared<Alarm>();  // keeps the task until the test is over
  const auto stuck = [gate] { gate->wait(kNever, Deadline(Seconds(20))); };
  EXPECT_FALSE(run_unless_raised(*alarm, stuck, Deadline(Seconds(0.01))));
  alarm->raise({});
  EXPECT_FALSE(run_unless_raised(*alarm, stuck, Deadline(Seconds(10))));
  gate->raise({});
}

}  // namespace
}  // namespace daso
