// SPDX-License-Identifier: Apache-2.0
#include "daso/base/abandonable.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "daso/base/while_waiting.h"
#include "data/gate.h"
#include "process.h"

namespace daso {
namespace {

using Outcome = Abandonable::Outcome;
using test::Gate;
using test::holds_within;

const Seconds kLong{20};

TEST(Abandonable, RunsCallsAndGivesWhatTheyThrow) {
  Abandonable calls("test");
  const auto result = std::make_shared<int>(0);
  EXPECT_EQ(calls.run([result] { *result = 7; }, Deadline(kLong)), Outcome::kDone);
  EXPECT_EQ(*result, 7);
  EXPECT_THROW(calls.run([] { throw std::runtime_error("no"); }, Deadline(kLong)),
               std::runtime_error);
  EXPECT_EQ(calls.run([] {}, Deadline(kLong)), Outcome::kDone);
}

TEST(Abandonable, DestroysWhatACallOwnsBeforeItIsOver) {
  Abandonable calls("test");
  auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = owned;
  EXPECT_EQ(calls.run([mine = std::move(owned)] {}, Deadline(kLong)), Outcome::kDone);
  EXPECT_TRUE(seen.expired());
}

TEST(Abandonable, NamesWhatHangsAndBeginsNothingUntilItIsOver) {
  Abandonable calls("test");
  const auto gate = std::make_shared<Gate>();
  EXPECT_EQ(calls.run([gate] { gate->pass(); }, Deadline(Seconds(0.02)), "the first"),
            Outcome::kLate);
  EXPECT_EQ(calls.hanging(), "the first");
  EXPECT_EQ(calls.run([] {}, Deadline(kLong)), Outcome::kStuck);
  gate->open();
  EXPECT_TRUE(holds_within(kLong, [&] { return calls.hanging().empty(); }));
  EXPECT_EQ(calls.run([] {}, Deadline(kLong)), Outcome::kDone);
}

TEST(Abandonable, StopsWaitingWhenAsked) {
  Abandonable calls("test");
  const auto gate = std::make_shared<Gate>();
  std::stop_source stop;
  const std::jthread other([&] {
    EXPECT_TRUE(holds_within(kLong, [&] { return gate->waiting() == 1; }));
    stop.request_stop();
  });
  EXPECT_EQ(calls.run([gate] { gate->pass(); }, Deadline(kLong), "", stop.get_token()),
            Outcome::kStopped);
  gate->open();
}

TEST(Abandonable, LetsSeveralThreadsTakeTurns) {
  Abandonable calls("test");
  const auto sum = std::make_shared<int>(0);  // touched by the one thread alone
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] {
        for (int j = 0; j < 100; ++j) {
          EXPECT_EQ(calls.run([sum] { ++*sum; }, Deadline(kLong)), Outcome::kDone);
        }
      });
    }
  }
  EXPECT_EQ(*sum, 800);
}

TEST(Abandonable, IsLeftByWhatTheCallerDoesMeanwhile) {
  const auto gate = std::make_shared<Gate>();
  Abandonable calls("test");
  {
    const WhileWaiting interrupted([] { throw std::runtime_error("interrupted"); });
    EXPECT_THROW(calls.run([gate] { gate->pass(); }, Deadline(kLong), "a call"),
                 std::runtime_error);
  }
  EXPECT_EQ(calls.hanging(), "a call");
  gate->open();
}

TEST(Abandonable, DiesWhileACallHangs) {
  const auto gate = std::make_shared<Gate>();
  {
    Abandonable calls("test");
    EXPECT_EQ(calls.run([gate] { gate->pass(); }, Deadline(Seconds(0.02))), Outcome::kLate);
  }
  gate->open();
}

}  // namespace
}  // namespace daso
