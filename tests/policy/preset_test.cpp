// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/preset.h"

#include <gtest/gtest.h>

namespace daso {
namespace {

TEST(Preset, DefaultSkipFallsWithTheNodes) {
  const std::vector<std::pair<int, int>> skip_of = {{1, 4},  {4, 4},  {8, 4},   {9, 3},
                                                    {10, 3}, {11, 2}, {16, 2},  {17, 1},
                                                    {32, 1}, {33, 1}, {1000, 1}};
  for (const auto& [nodes, skip] : skip_of) {
    EXPECT_EQ(default_preset(nodes).cadence, (Cadence{.skip = skip, .wait = 1})) << nodes;
  }
}

TEST(Preset, DefaultsAndPaperAreWhatTheDefinitionSays) {
  const Preset ours = default_preset(4);
  EXPECT_EQ(ours.exchange,
            (ExchangeOptions{ExchangeKind::kSharded, Wire::kInt8, MergeRule::kCorrected}));
  EXPECT_EQ(ours.schedule, ScheduleKind::kRate);
  EXPECT_EQ(ours.warmup_epochs, std::nullopt);
  EXPECT_EQ(ours.cooldown_epochs, 0);
  const Preset paper = paper_preset();
  EXPECT_EQ(paper.exchange,
            (ExchangeOptions{ExchangeKind::kRotating, Wire::kFp32, MergeRule::kPaper}));
  EXPECT_EQ(paper.schedule, ScheduleKind::kPlateau);
  EXPECT_EQ(paper.cadence, (Cadence{.skip = 4, .wait = 1}));
  EXPECT_EQ(paper.warmup_epochs, 4);
  EXPECT_EQ(paper.cooldown_epochs, 4);
}

TEST(Preset, WarmupLastsToTheEndOfThePeaksEpoch) {
  EXPECT_EQ(warmup_epochs_until(/*peak_step=*/0, /*batches=*/10), 1);
  EXPECT_EQ(warmup_epochs_until(9, 10), 1);
  EXPECT_EQ(warmup_epochs_until(10, 10), 2);
  EXPECT_EQ(warmup_epochs_until(5, 1), 6);
}

TEST(Warnings, CleanRunHasNone) {
  EXPECT_TRUE(warnings_for({.nodes = 8, .cadence = {.skip = 4, .wait = 1}}).empty());
  EXPECT_TRUE(warnings_for({.nodes = 4, .cadence = {.skip = 4, .wait = 4}}).empty());
  EXPECT_TRUE(warnings_for(
                  {.nodes = 8, .schedule = ScheduleKind::kFixed, .cadence = {.skip = 4, .wait = 1}})
                  .empty());
  // Nothing is exchanged on one node.
  EXPECT_TRUE(warnings_for({.nodes = 1,
                            .schedule = ScheduleKind::kFixed,
                            .cadence = {.skip = 99, .wait = 9},
                            .adamw = true})
                  .empty());
}

TEST(Warnings, EachRiskHasItsOwn) {
  const auto wait = warnings_for({.nodes = 5, .cadence = {.skip = 4, .wait = 2}});
  ASSERT_EQ(wait.size(), 1U);
  EXPECT_NE(wait[0].find("a wait of 2 on 5 nodes"), std::string::npos);
  // 32 / 9 is 3.6.
  const auto skip = warnings_for(
      {.nodes = 9, .schedule = ScheduleKind::kFixed, .cadence = {.skip = 4, .wait = 1}});
  ASSERT_EQ(skip.size(), 1U);
  EXPECT_NE(skip[0].find("a fixed skip of 4 on 9 nodes may cost accuracy; up to 3"),
            std::string::npos);
  const auto adamw = warnings_for({.nodes = 2, .adamw = true});
  ASSERT_EQ(adamw.size(), 1U);
  EXPECT_NE(adamw[0].find("AdamW"), std::string::npos);
  const auto wire = warnings_for({.nodes = 2, .wire = Wire::kQsgd2});
  ASSERT_EQ(wire.size(), 1U);
  EXPECT_NE(wire[0].find("the wire qsgd2"), std::string::npos);
  EXPECT_TRUE(warnings_for({.nodes = 2, .wire = Wire::kQsgd3}).empty());
  EXPECT_EQ(warnings_for({.nodes = 16,
                          .schedule = ScheduleKind::kFixed,
                          .cadence = {.skip = 4, .wait = 2},
                          .adamw = true})
                .size(),
            3U);
}

}  // namespace
}  // namespace daso
