// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/policy/cycle.h"
#include "daso/policy/schedule.h"
#include "golden_file.h"

namespace daso {
namespace {

using nlohmann::json;

constexpr double kEndlessRate = std::numeric_limits<double>::infinity();

StepInfo falling(double rate) { return {.last = 9, .rate = rate, .next_rate = rate / 2}; }

TEST(Rate, PeriodsStartWhereTheGoldenOnesDo) {
  const json cases = test::golden("periods.json");
  ASSERT_GE(cases.size(), 4U);
  for (const json& one : cases) {
    const auto rates = one.at("learning_rates").get<std::vector<double>>();
    const std::int64_t batches = one.at("batches");
    const int epochs = static_cast<int>(static_cast<std::int64_t>(rates.size()) / batches);
    const Schedule schedule({.kind = ScheduleKind::kRate,
                             .phases = {.epochs = epochs},
                             .cadence = {.skip = one.at("skip"), .wait = 1},
                             .alpha = one.at("alpha")});
    const RunPlan run_plan{.epochs = epochs, .batches = batches, .rate = [&](std::int64_t step) {
                             return rates.at(static_cast<std::size_t>(step));
                           }};
    const LossOfEpoch loss = [](int) { return 0.0; };
    json found = json::array();
    for (const EpochTrajectory& epoch :
         trajectory_of(schedule, Cycle({.nodes = 2}), run_plan, loss)) {
      for (const auto& [step, skip] : epoch.starts) found.push_back({step, skip});
    }
    EXPECT_EQ(found, one.at("expect")) << one.at("name");
  }
}

TEST(Rate, PeriodGrowsWithTheSquareOfTheRate) {
  const RateOptions options{.skip = 3, .alpha = 1};
  EXPECT_EQ(period(options, falling(1)), 3);  // 1, but at least skip
  EXPECT_EQ(period(options, falling(0.5)), 4);
  EXPECT_EQ(period(options, falling(0.4)), 6);  // 6.25
  EXPECT_EQ(period(options, falling(0.25)), 16);
  EXPECT_EQ(period(options, falling(0.001)), 1000000);  // far beyond the epoch, and not cut
}

TEST(Rate, RisingRateKeepsTheShortestPeriod) {
  const RateOptions options{.skip = 3, .alpha = 1};
  EXPECT_EQ(period(options, {.last = 9, .rate = 0.1, .next_rate = 0.2}), 3);
  EXPECT_EQ(period(options, {.last = 9, .rate = 0, .next_rate = 0.2}), 3);
  // Constant is not rising, and neither is the end of the run.
  EXPECT_EQ(period(options, {.last = 9, .rate = 0.25, .next_rate = 0.25}), 16);
  EXPECT_EQ(period(options, {.last = 9, .rate = 0.25, .next_rate = {}}), 16);
}

TEST(Rate, RateOfZeroOrLessMakesThePeriodTheEpoch) {
  const RateOptions options{.skip = 3, .alpha = 1};
  for (const double rate : {0.0, -0.0, -0.1}) {
    EXPECT_EQ(period(options, {.last = 9, .rate = rate, .next_rate = rate}), 10) << rate;
  }
}

TEST(Rate, TinyRateDoesNotOverflow) {
  const RateOptions options{.skip = 3, .alpha = 1};
  for (const double rate : {1e-9, 1e-30, 1e-200, 5e-324}) {
    EXPECT_EQ(period(options, falling(rate)), kEndless) << rate;
  }
  // The largest that still fits: (2^26)^2 = 2^52.
  EXPECT_EQ(period(options, falling(1.0 / (1 << 26))), std::int64_t{1} << 52);
}

TEST(Rate, RateThatIsNotFiniteIsRefused) {
  const RateOptions options{.skip = 3, .alpha = 1};
  for (const double rate : {kEndlessRate, -kEndlessRate, kEndlessRate - kEndlessRate}) {
    EXPECT_THROW(period(options, {.last = 9, .rate = rate, .next_rate = 1.0}), ConfigError);
    EXPECT_THROW(period(options, {.last = 9, .rate = 1, .next_rate = rate}), ConfigError);
  }
}

}  // namespace
}  // namespace daso
