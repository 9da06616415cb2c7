// SPDX-License-Identifier: Apache-2.0
#include "verify/training_check.h"

#include <gtest/gtest.h>

#include <limits>

namespace daso::verify {
namespace {

// Two nodes of two ranks and one, two steps of cycling: a start, then merge and agreement. The
// numbers are made up: the check compares, it does not train.
TrainingCase made_up() {
  TrainingCase training;
  training.nodes = {2, 1};
  training.start = {0, 0};
  training.curvature = {1, 1};
  training.targets = {{0, 0}, {0, 0}, {0, 0}};
  training.rate = 0.1;
  training.batches = 2;
  training.schedule = {.kind = ScheduleKind::kListed,
                       .listed = {{.phase = Phase::kCycling, .cadence = {.skip = 4, .wait = 1}}}};
  training.events = {
      {.step = 0, .what = "start", .exchange = 0, .leaders = {{0, 0}}},
      {.step = 1, .what = "merge", .exchange = 0, .staleness = 1},
      {.step = 1, .what = "exchange", .exchange = 1, .leaders = {{1, 0}}, .staleness = 0}};
  training.parameters = {{{1, 2}, {-3, 4}}, {{5, 6}, {5, 6}}};
  training.tolerance = 1e-3;
  return training;
}

const StrategyEvents kStart = {{.kind = StrategyEvent::Kind::kStart, .exchange = 0}};
const StrategyEvents kEnd = {{.kind = StrategyEvent::Kind::kMerge, .exchange = 0, .staleness = 1},
                             {.kind = StrategyEvent::Kind::kAgree, .exchange = 1}};

using Floats = std::vector<float>;

Verdict checked(const TrainingCase& training, int rank, const Floats& first, const Floats& second,
                const StrategyEvents& end = kEnd) {
  TrainingCheck check(training, Wire::kFp32, rank);
  check.step(0, Phase::kCycling, kStart, first);
  check.step(1, Phase::kCycling, end, second);
  check.finish();
  return check.verdict();
}

TEST(TrainingCheck, HoldsWhereAllIsAsExpected) {
  const Verdict verdict = checked(made_up(), 2, {-3, 4}, {5, 6.0005F});
  EXPECT_TRUE(verdict.holds());
  EXPECT_NEAR(verdict.largest, 5e-4, 1e-6);
  EXPECT_EQ(verdict.bound, 0);
}

TEST(TrainingCheck, RankIsComparedWithItsNode) {
  EXPECT_TRUE(checked(made_up(), 1, {1, 2}, {5, 6}).holds());
  const Verdict verdict = checked(made_up(), 1, {-3, 4}, {5, 6});
  ASSERT_FALSE(verdict.holds());
  EXPECT_EQ(verdict.first->detail.at("node"), 0);
}

TEST(TrainingCheck, FirstDifferenceIsToldInFull) {
  const Verdict verdict = checked(made_up(), 2, {-3, 4}, {5, 6.25F});
  ASSERT_FALSE(verdict.holds());
  EXPECT_EQ(verdict.first->text,
            "step 1, node 1, rank 2, element 1: got 6.25, expected 6 (tolerance 0.001)");
  const nlohmann::ordered_json& detail = verdict.first->detail;
  EXPECT_EQ(detail.at("step"), 1);
  EXPECT_EQ(detail.at("rank"), 2);
  EXPECT_EQ(detail.at("element"), 1);
  EXPECT_EQ(detail.at("got"), 6.25);
  EXPECT_EQ(detail.at("expected"), 6.0);
}

TEST(TrainingCheck, NanIsADifference) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(checked(made_up(), 0, {1, nan}, {5, 6}).holds());
}

TEST(TrainingCheck, ToleranceIsAbsoluteUpToTheRoundingOfLargeNumbers) {
  TrainingCase training = made_up();
  training.tolerance = 1e-5;
  EXPECT_FALSE(checked(training, 0, {1.00002F, 2}, {5, 6}).holds());
  training.parameters[0][0][0] = 1e6;
  EXPECT_TRUE(checked(training, 0, {1e6F + 0.5F, 2}, {5, 6}).holds());
  EXPECT_FALSE(checked(training, 0, {1e6F + 2, 2}, {5, 6}).holds());
}

TEST(TrainingCheck, WrongEventIsToldBeforeTheParametersOfItsStep) {
  TrainingCase training = made_up();
  training.events[1].staleness = 2;
  const Verdict verdict = checked(training, 0, {1, 2}, {7, 7});
  ASSERT_FALSE(verdict.holds());
  EXPECT_EQ(verdict.first->text,
            R"(step 1, rank 0, event 1: got {"step":1,"do":"merge","exchange":0,"staleness":1}, )"
            R"(expected {"step":1,"do":"merge","exchange":0,"staleness":2})");
}

TEST(TrainingCheck, SpeakersAreCompared) {
  TrainingCase training = made_up();
  training.events[2].leaders = {{0, 0}};
  EXPECT_FALSE(checked(training, 0, {1, 2}, {5, 6}).holds());
}

TEST(TrainingCheck, MissingAndSuperfluousEventsAreFound) {
  const StrategyEvents silent = {kEnd.front()};
  const Verdict missing = checked(made_up(), 0, {1, 2}, {5, 6}, silent);
  ASSERT_FALSE(missing.holds());
  EXPECT_TRUE(missing.first->text.starts_with("step 1, rank 0, event 2: got nothing, expected {"))
      << missing.first->text;
  TrainingCase fewer = made_up();
  fewer.events.pop_back();
  const Verdict superfluous = checked(fewer, 0, {1, 2}, {5, 6});
  ASSERT_FALSE(superfluous.holds());
  EXPECT_TRUE(superfluous.first->text.ends_with("expected nothing")) << superfluous.first->text;
}

TEST(TrainingCheck, CopiesThatDifferAtAnEpochsEndAreFound) {
  const TrainingCase training = made_up();
  TrainingCheck check(training, Wire::kInt8, 0);
  check.epoch(0, 1, std::vector<std::uint64_t>{7, 7, 7});
  EXPECT_TRUE(check.verdict().holds());
  check.epoch(0, 1, std::vector<std::uint64_t>{7, 7, 8});
  ASSERT_FALSE(check.verdict().holds());
  EXPECT_EQ(check.verdict().first->detail.at("rank"), 2);
  EXPECT_EQ(check.verdict().first->detail.at("node"), 1);
}

TEST(Verdict, EarliestFindingOfAllRanksCounts) {
  Verdict together;
  together.add(Verdict{.first = Finding{.step = 4, .rank = 0}, .largest = 1});
  together.add(Verdict{.first = Finding{.step = 2, .rank = 1}, .largest = 0.5});
  together.add(Verdict{.first = Finding{.step = 2, .rank = 2}, .largest = 3});
  EXPECT_EQ(together.first->rank, 1);
  EXPECT_EQ(together.largest, 3);
}

TEST(Verdict, TravelsAsText) {
  const Verdict verdict{
      .first = Finding{.step = 4, .rank = 2, .text = "a \"b\"", .detail = {{"step", 4}}},
      .largest = 0.1,
      .bound = 0.25};
  const Verdict back = verdict_in(text_of(verdict));
  EXPECT_EQ(back.first->text, "a \"b\"");
  EXPECT_EQ(back.first->step, 4);
  EXPECT_EQ(back.first->rank, 2);
  EXPECT_EQ(back.first->detail, verdict.first->detail);
  EXPECT_EQ(back.largest, 0.1);
  EXPECT_EQ(back.bound, 0.25);
  EXPECT_TRUE(verdict_in(text_of(Verdict{})).holds());
}

TEST(WireBound, QuantaAreThoseOfTheFormats) {
  EXPECT_EQ(quantum_of(Wire::kFp32, 1), 0);
  EXPECT_EQ(quantum_of(Wire::kInt8, 127), 1);
  EXPECT_EQ(quantum_of(Wire::kInt4, 7), 1);
  // At random a value may go to either neighbour: off by a whole level, not by half of one.
  EXPECT_EQ(quantum_of(Wire::kQsgd8, 127), 2);
  EXPECT_EQ(quantum_of(Wire::kQsgd4, 7), 2);
  EXPECT_EQ(quantum_of(Wire::kQsgd2, 1), 2);
  EXPECT_EQ(quantum_of(Wire::kQsgd1, 1), 4);
  EXPECT_EQ(quantum_of(Wire::kBf16, 1), 1.0 / 128);  // the neighbour of 1 above it
  EXPECT_NEAR(quantum_of(Wire::kFp16, 1), 1.0 / 1024, 1e-7);
}

TEST(WireBound, GrowsWithEveryMergeByWhatTheNodesSentAndTheirMean) {
  const WireBound bound(made_up(), Wire::kInt8);
  EXPECT_EQ(bound.at(0, 0), 0);
  // Differences at the start are at most 4; their means -1/3 and 8/3, to which the rounding of
  // what was sent adds up to a quantum.
  const double sent = 4.0 / 127;
  EXPECT_NEAR(bound.at(1, 0), sent + (8.0 / 3 + sent) / 127, 1e-12);
  EXPECT_EQ(bound.largest(), bound.at(1, 1));
  EXPECT_EQ(WireBound(made_up(), Wire::kFp32).largest(), 0);
}

TEST(WireBound, BlocksCountForThemselves) {
  TrainingCase training = made_up();
  for (auto* vector :
       {&training.start, &training.curvature, &training.targets[0], &training.targets[1],
        &training.targets[2], &training.parameters[0][0], &training.parameters[0][1],
        &training.parameters[1][0], &training.parameters[1][1]}) {
    vector->resize(300);
  }
  const WireBound bound(training, Wire::kInt8);
  EXPECT_GT(bound.at(1, 255), 0);
  EXPECT_EQ(bound.at(1, 256), 0);
}

TEST(WireBound, ResponseIsOneUnlessStepsOvershoot) {
  TrainingCase training = made_up();
  EXPECT_EQ(largest_response(training), 1);
  training.momentum = 0.9;
  EXPECT_EQ(largest_response(training), 1);
  training.momentum = 0;
  training.rate = 3;  // 1 becomes 1 - 3 = -2, then 4
  EXPECT_EQ(largest_response(training), 4);
}

}  // namespace
}  // namespace daso::verify
