// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/schedule.h"

#include <gtest/gtest.h>

#include <limits>

#include "daso/base/error.h"
#include "golden_file.h"

namespace daso {
namespace {

using nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The message with which options are refused; empty if they are not.
std::string refusal(const ScheduleOptions& options) {
  try {
    const Schedule schedule(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

ScheduleOptions plateau(const Phases& phases, const Cadence& cadence, const StallOptions& stall) {
  return {.kind = ScheduleKind::kPlateau, .phases = phases, .cadence = cadence, .stall = stall};
}

std::vector<EpochPlan> run(Schedule schedule, const std::vector<double>& losses) {
  std::vector<EpochPlan> plans;
  for (int epoch = 0; epoch < schedule.epochs(); ++epoch) {
    plans.push_back(schedule.epoch(epoch));
    schedule.end_epoch(epoch, losses.at(static_cast<std::size_t>(epoch)));
  }
  return plans;
}

std::vector<int> skips(const std::vector<EpochPlan>& plans) {
  std::vector<int> all;
  all.reserve(plans.size());
  for (const EpochPlan& plan : plans) all.push_back(plan.cadence.skip);
  return all;
}

// Skips of a run that only cycles.
std::vector<int> cycling_skips(const std::vector<double>& losses, const StallOptions& stall) {
  const Phases phases{.epochs = static_cast<int>(losses.size())};
  return skips(run(Schedule(plateau(phases, {.skip = 4, .wait = 1}, stall)), losses));
}

TEST(Phase, EpochsAreWarmupThenCyclingThenCooldown) {
  const Phases phases{.epochs = 5, .warmup = 2, .cooldown = 1};
  const std::vector<Phase> expected = {Phase::kWarmup, Phase::kWarmup, Phase::kCycling,
                                       Phase::kCycling, Phase::kCooldown};
  for (int epoch = 0; epoch < 5; ++epoch) {
    EXPECT_EQ(phase_of(phases, epoch), expected[static_cast<std::size_t>(epoch)]) << epoch;
  }
}

TEST(Phase, CooldownWinsWhereBothClaimAnEpoch) {
  const Phases phases{.epochs = 3, .warmup = 9, .cooldown = 2};
  EXPECT_EQ(phase_of(phases, 0), Phase::kWarmup);
  EXPECT_EQ(phase_of(phases, 1), Phase::kCooldown);
  EXPECT_EQ(phase_of({.epochs = 3, .warmup = 3, .cooldown = 3}, 0), Phase::kCooldown);
}

TEST(Phase, BothMayBeMissing) {
  for (int epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(phase_of({.epochs = 4, .warmup = 0, .cooldown = 0}, epoch), Phase::kCycling);
  }
}

TEST(Schedule, PlateauFollowsTheGoldenTrajectories) {
  const json cases = test::golden("schedules.json");
  ASSERT_GE(cases.size(), 9U);
  for (const json& one : cases) {
    std::vector<double> losses;
    for (const json& loss : one.at("losses")) {
      losses.push_back(loss.is_null() ? kNan : loss.get<double>());
    }
    const StallOptions stall{.patience = one.value("patience", 2),
                             .threshold = one.value("threshold", 0.05)};
    const Phases phases{one.at("epochs"), one.at("warmup"), one.at("cooldown")};
    const auto plans =
        run(Schedule(plateau(phases, {one.at("skip"), one.at("wait")}, stall)), losses);
    json found = json::array();
    for (const auto& [phase, cadence] : plans) {
      found.push_back({name_of(phase), cadence.skip, cadence.wait});
    }
    EXPECT_EQ(found, one.at("expect")) << one.at("name");
  }
}

TEST(Plateau, PatienceZeroForgivesNothing) {
  // The first loss is progress, each further one a stall that acts from the next epoch.
  EXPECT_EQ(cycling_skips({1, 1, 1, 1, 1, 1}, {.patience = 0}),
            (std::vector<int>{4, 4, 2, 1, 4, 2}));
}

TEST(Plateau, NanIsNeverProgress) {
  EXPECT_EQ(cycling_skips({kNan, kNan, kNan, kNan}, {.patience = 1}),
            (std::vector<int>{4, 4, 2, 2}));
  // Nor does it become the best, below which a later loss would have to fall.
  EXPECT_EQ(cycling_skips({1, kNan, 0.5, kNan, kNan, 0.6}, {.patience = 1}),
            (std::vector<int>{4, 4, 4, 4, 4, 2}));
}

TEST(Plateau, PairIsHalvedSeparatelyAndReturns) {
  const Cadence initial{.skip = 12, .wait = 5};
  std::vector<Cadence> found = {initial};
  for (int i = 0; i < 4; ++i) found.push_back(after_stall(found.back(), initial));
  EXPECT_EQ(found, (std::vector<Cadence>{{12, 5}, {6, 2}, {3, 1}, {1, 1}, {12, 5}}));
  EXPECT_EQ(after_stall({1, 1}, {1, 1}), (Cadence{1, 1}));
}

TEST(Plateau, OnlyTheLastWarmupEpochAndCyclingFeedIt) {
  const Phases phases{.epochs = 7, .warmup = 3, .cooldown = 2};
  // Had the first two epochs fed it, nothing after them would be progress.
  const std::vector<double> losses = {-100, -100, 4, 2, 1, 9, 9};
  EXPECT_EQ(skips(run(Schedule(plateau(phases, {}, {.patience = 0})), losses)),
            (std::vector<int>{0, 0, 0, 4, 4, 0, 0}));
  // A stall in the last warm-up epoch acts in the first of cycling.
  EXPECT_EQ(skips(run(Schedule(plateau(phases, {}, {.patience = 0})), {1, 1, kNan, 2, 1, 9, 9})),
            (std::vector<int>{0, 0, 0, 2, 2, 0, 0}));
}

TEST(Schedule, FixedAndRateDoNotListenToTheLoss) {
  for (const ScheduleKind kind : {ScheduleKind::kFixed, ScheduleKind::kRate}) {
    const Schedule schedule({.kind = kind,
                             .phases = {.epochs = 9, .warmup = 1, .cooldown = 1},
                             .cadence = {.skip = 6, .wait = 3},
                             .stall = {.patience = 0},
                             .alpha = 0.1});
    EXPECT_EQ(skips(run(schedule, std::vector<double>(9, 1.0))),
              (std::vector<int>{0, 6, 6, 6, 6, 6, 6, 6, 0}));
  }
}

TEST(Schedule, ListedIsWhatWasListed) {
  const std::vector<EpochPlan> plans = {
      {Phase::kCycling, {3, 2}}, {Phase::kWarmup, {0, 0}}, {Phase::kCycling, {5, 5}}};
  EXPECT_EQ(run(Schedule({.kind = ScheduleKind::kListed, .listed = plans}), {1, 1, 1}), plans);
}

TEST(Schedule, SavedStateGoesOnAlikeFromEveryEpoch) {
  const std::vector<double> losses = {1, 0.99, 0.98, kNan, 0.97, -1, -1, -1.01, -3, -3, -3, -3};
  const ScheduleOptions options =
      plateau({.epochs = 12, .warmup = 1}, {.skip = 5, .wait = 3}, {.patience = 1});
  const std::vector<EpochPlan> whole = run(Schedule(options), losses);
  for (int stop = 0; stop < 12; ++stop) {
    Schedule before(options);
    for (int epoch = 0; epoch < stop; ++epoch) {
      before.end_epoch(epoch, losses[static_cast<std::size_t>(epoch)]);
    }
    Schedule after(options);
    after.load_state(before.state());
    for (int epoch = stop; epoch < 12; ++epoch) {
      EXPECT_EQ(after.epoch(epoch), whole[static_cast<std::size_t>(epoch)]) << stop;
      after.end_epoch(epoch, losses[static_cast<std::size_t>(epoch)]);
    }
  }
}

// A run that goes on with other flags has the cadence of these flags.
TEST(Schedule, OnlyPlateauGoesOnWithASavedCadence) {
  const Cadence saved{.skip = 4, .wait = 4};
  const Cadence asked{.skip = 2, .wait = 1};
  for (const ScheduleKind kind :
       {ScheduleKind::kFixed, ScheduleKind::kRate, ScheduleKind::kPlateau}) {
    Schedule schedule({.kind = kind, .cadence = asked, .alpha = 0.1});
    schedule.load_state({.stall = {}, .cadence = saved});
    EXPECT_EQ(schedule.epoch(0).cadence, kind == ScheduleKind::kPlateau ? saved : asked)
        << name_of(kind);
  }
}

TEST(Schedule, WrongOptionsAreRefusedWithTheirValue) {
  const ScheduleOptions good{.kind = ScheduleKind::kPlateau};
  EXPECT_EQ(refusal(good), "");
  ScheduleOptions bad = good;
  bad.cadence = {.skip = 4, .wait = 5};
  EXPECT_EQ(refusal(bad),
            "wait must lie in 1 ... skip (4), got 5: more than one exchange in flight diverges");
  bad.cadence = {.skip = 4, .wait = 0};
  EXPECT_NE(refusal(bad).find("got 0"), std::string::npos);
  bad.cadence = {.skip = 0, .wait = 1};
  EXPECT_EQ(refusal(bad), "skip must be at least 1, got 0");
  bad = good;
  bad.phases.epochs = 0;
  EXPECT_NE(refusal(bad), "");
  bad = good;
  bad.phases.warmup = -1;
  EXPECT_NE(refusal(bad), "");
  bad = good;
  bad.phases.cooldown = -1;
  EXPECT_NE(refusal(bad), "");
  bad = good;
  bad.stall.patience = -1;
  EXPECT_NE(refusal(bad), "");
  for (const double threshold : {-0.1, 1.0, kNan}) {
    bad = good;
    bad.stall.threshold = threshold;
    EXPECT_NE(refusal(bad), "") << threshold;
  }
  for (const double alpha : {0.0, -1.0, kNan, kInfinity}) {
    EXPECT_NE(refusal({.kind = ScheduleKind::kRate, .alpha = alpha}), "") << alpha;
  }
  EXPECT_NE(refusal({.kind = ScheduleKind::kListed}), "");
  EXPECT_NE(refusal({.kind = ScheduleKind::kListed, .listed = {{Phase::kCycling, {2, 3}}}}), "");
}

TEST(Schedule, NamesAndKindsFitEachOther) {
  for (const std::string& name : schedule_names()) EXPECT_EQ(name_of(schedule_kind_of(name)), name);
  EXPECT_EQ(name_of(ScheduleKind::kPlateau), "plateau");
  EXPECT_EQ(name_of(ScheduleKind::kListed), "listed");
}

}  // namespace
}  // namespace daso
