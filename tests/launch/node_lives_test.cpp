// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/node_lives.h"

#include <gtest/gtest.h>

namespace daso {
namespace {

constexpr Seconds kNow{100};
constexpr Seconds kLater{1000};

TEST(NodeLives, StartsALostNodeAgainAfterAPause) {
  NodeLives lives(/*restarts=*/10);
  EXPECT_TRUE(lives.died(2, /*entered=*/true, kNow));
  EXPECT_FALSE(lives.due(kNow));
  ASSERT_TRUE(lives.pause(kNow));
  EXPECT_GT(*lives.pause(kNow), Seconds(0));
  EXPECT_EQ(2, lives.due(kNow + *lives.pause(kNow)));
  lives.started(2);
  EXPECT_FALSE(lives.due(kLater));
  EXPECT_FALSE(lives.pause(kLater));
}

TEST(NodeLives, WaitsLongerForANodeThatDiesBeforeItTakesPart) {
  NodeLives lives(10);
  lives.died(0, true, kNow);
  lives.died(1, false, kNow);
  EXPECT_EQ(0, lives.due(kNow + *lives.pause(kNow)));
}

TEST(NodeLives, GivesUpAfterThreeDeathsInARowThatCameToNothing) {
  NodeLives lives(10);
  EXPECT_TRUE(lives.died(0, false, kNow));
  EXPECT_TRUE(lives.died(0, false, kNow));
  EXPECT_TRUE(lives.died(0, true, kNow));  // it had taken part: they count from the beginning
  EXPECT_TRUE(lives.died(0, false, kNow));
  EXPECT_TRUE(lives.died(0, false, kNow));
  EXPECT_FALSE(lives.died(0, false, kNow));
}

TEST(NodeLives, StartsEachNodeSoOftenAndNoMore) {
  NodeLives lives(1);
  EXPECT_TRUE(lives.died(0, true, kNow));
  EXPECT_FALSE(lives.died(0, true, kNow));
  EXPECT_TRUE(lives.died(1, true, kNow));
  EXPECT_FALSE(NodeLives(0).died(0, true, kNow));
}

TEST(NodeLives, ForgetsWhatIsPlannedWhenTheRunIsOver) {
  NodeLives lives(10);
  lives.died(0, true, kNow);
  lives.forget_all();
  EXPECT_FALSE(lives.due(kLater));
}

}  // namespace
}  // namespace daso
