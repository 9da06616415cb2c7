// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "daso/base/error.h"

namespace daso {
namespace {

TEST(LearningRate, RisesLinearlyThenFallsAsACosine) {
  const LearningRateOptions options{.peak = 0.4, .warmup_steps = 20, .steps = 200};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.02);
  EXPECT_DOUBLE_EQ(learning_rate(options, 9), 0.2);
  EXPECT_EQ(learning_rate(options, 19), 0.4);
  EXPECT_EQ(learning_rate(options, 20), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 110), 0.202);     // half way: (peak + end) / 2
  EXPECT_DOUBLE_EQ(learning_rate(options, 200), 0.004);     // 1 % of the peak
  EXPECT_DOUBLE_EQ(learning_rate(options, 100000), 0.004);  // and no new beginning after it
  EXPECT_NEAR(learning_rate(options, 199), 0.004030156, 5e-10);
}

// Rounding must not move the peak into the next epoch, which would lengthen the default warm-up.
TEST(LearningRate, PeakIsExactAndAtTheEndOfWarmup) {
  for (const double peak : {0.1, 0.3, 1.0 / 3, 0.7, 1e-3, 12.8}) {
    for (std::int64_t warmup = 1; warmup < 60; ++warmup) {
      const LearningRateOptions options{.peak = peak, .warmup_steps = warmup, .steps = 5 * warmup};
      const auto rate = [&](std::int64_t step) { return learning_rate(options, step); };
      const Peak found = peak_of(rate, options.steps);
      EXPECT_EQ(found.rate, peak);
      EXPECT_EQ(found.step, warmup - 1);
    }
  }
}

TEST(LearningRate, RunOfOneEpochOnlyWarmsUp) {
  const LearningRateOptions options{.peak = 1, .warmup_steps = 4, .steps = 4};
  EXPECT_EQ(learning_rate(options, 0), 0.25);
  EXPECT_EQ(learning_rate(options, 3), 1);
}

TEST(LearningRate, RunWithoutWarmupStartsAtThePeak) {
  const LearningRateOptions options{.peak = 1, .warmup_steps = 0, .steps = 4};
  EXPECT_EQ(learning_rate(options, 0), 1);
  EXPECT_LT(learning_rate(options, 1), 1);
}

TEST(LearningRate, PeakIsTheFirstOfTheHighest) {
  const Peak peak = peak_of([](std::int64_t step) { return step < 3 ? 0.1 : 0.5; }, 9);
  EXPECT_EQ(peak.rate, 0.5);
  EXPECT_EQ(peak.step, 3);
}

TEST(LearningRate, WarmsUpFromItsStart) {
  const LearningRateOptions options{.peak = 0.5, .start = 0.25, .warmup_steps = 4, .steps = 40};
  EXPECT_EQ(learning_rate(options, 0), 0.3125);
  EXPECT_EQ(learning_rate(options, 1), 0.375);
  EXPECT_EQ(learning_rate(options, 3), 0.5);
  // From the peak itself nothing rises.
  for (std::int64_t step = 0; step < 7; ++step) {
    EXPECT_EQ(learning_rate({.peak = 0.1, .start = 0.1, .warmup_steps = 7, .steps = 9}, step), 0.1);
  }
}

TEST(LearningRate, StepsFallByGammaAtEachDrop) {
  const LearningRateOptions options{.kind = RateKind::kStep,
                                    .peak = 1,
                                    .warmup_steps = 2,
                                    .steps = 50,
                                    .gamma = 0.5,
                                    .drops = {10, 20, 40}};
  const std::vector<std::pair<std::int64_t, double>> expected = {
      {0, 0.5},   {1, 1},     {9, 1},      {10, 0.5},  {19, 0.5},
      {20, 0.25}, {39, 0.25}, {40, 0.125}, {99, 0.125}};
  for (const auto& [step, rate] : expected) EXPECT_EQ(learning_rate(options, step), rate) << step;
}

TEST(LearningRate, PolynomialFallsToItsEnd) {
  LearningRateOptions options{
      .kind = RateKind::kPolynomial, .peak = 4, .warmup_steps = 0, .steps = 8, .end = 0};
  EXPECT_EQ(learning_rate(options, 0), 4);
  EXPECT_EQ(learning_rate(options, 4), 1);  // 4 (1 - 1/2)^2
  EXPECT_EQ(learning_rate(options, 6), 0.25);
  EXPECT_EQ(learning_rate(options, 8), 0);
  EXPECT_EQ(learning_rate(options, 100), 0);
  options.end = 0.5;
  options.power = 1;
  EXPECT_EQ(learning_rate(options, 0), 4);
  EXPECT_EQ(learning_rate(options, 4), 3);
  EXPECT_EQ(learning_rate(options, 100), 2);
}

TEST(LearningRate, ConstantAndPlateauStayAtThePeak) {
  for (const RateKind kind : {RateKind::kConstant, RateKind::kPlateau}) {
    const LearningRateOptions options{.kind = kind, .peak = 0.3, .warmup_steps = 3, .steps = 30};
    EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.1);
    for (const std::int64_t step : {2, 3, 29, 100}) EXPECT_EQ(learning_rate(options, step), 0.3);
  }
}

// Progress, then three epochs of which patience forgives two.
TEST(RateFactor, FallsWhenTheLossHasStalled) {
  const LearningRateOptions plateau{.kind = RateKind::kPlateau, .gamma = 0.5};
  RateFactor factor;
  std::vector<double> found;
  for (const double loss : {4.0, 2.0, 1.99, 1.985, 2.0, 1.0, 1.0, 1.0, 1.0}) {
    after_epoch(plateau, factor, loss);
    found.push_back(factor.value);
  }
  EXPECT_EQ(found, (std::vector<double>{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25}));
  RateFactor other;
  for (int epoch = 0; epoch < 9; ++epoch) after_epoch({.kind = RateKind::kStep}, other, 1);
  EXPECT_EQ(other, RateFactor{});
}

// rate_numbers.py asks PyTorch's own schedulers.
class PyTorchsSchedulers : public testing::Test {
 protected:
  static nlohmann::json cases(const char* which) {
    std::ifstream file(DASO_RATE_NUMBERS);
    return nlohmann::json::parse(file)[which];
  }
  static LearningRateOptions options_of(const nlohmann::json& given) {
    LearningRateOptions options{.kind = rate_kind_of(given["kind"].get<std::string>())};
    options.peak = given["peak"];
    options.start = given.value("start", options.start);
    options.warmup_steps = given.value("warmup_steps", std::int64_t{0});
    options.steps = given.value("steps", std::int64_t{1});
    options.end = given.value("end", options.end);
    options.power = given.value("power", options.power);
    options.gamma = given.value("gamma", options.gamma);
    options.drops = given.value("drops", options.drops);
    options.stall.patience = given.value("patience", options.stall.patience);
    options.stall.threshold = given.value("threshold", options.stall.threshold);
    return options;
  }
};

TEST_F(PyTorchsSchedulers, HaveTheSameRates) {
  const nlohmann::json all = cases("steps");
  ASSERT_GT(all.size(), 5U);
  for (const nlohmann::json& one : all) {
    const LearningRate rate = rate_of(options_of(one["options"]));
    const std::vector<double> expected = one["rates"];
    for (std::size_t step = 0; step < expected.size(); ++step) {
      ASSERT_NEAR(rate(static_cast<std::int64_t>(step)), expected[step], 1e-12 + 1e-9 * expected[0])
          << one["options"] << " step " << step;
    }
  }
}

TEST_F(PyTorchsSchedulers, FallOnTheSamePlateaus) {
  const nlohmann::json all = cases("plateaus");
  ASSERT_GT(all.size(), 2U);
  for (const nlohmann::json& one : all) {
    const LearningRateOptions options = options_of(one["options"]);
    const std::vector<double> losses = one["losses"];
    const std::vector<double> expected = one["rates"];  // of the epochs after these losses
    ASSERT_EQ(losses.size(), expected.size());
    RateFactor factor;
    for (std::size_t epoch = 0; epoch < losses.size(); ++epoch) {
      after_epoch(options, factor, losses[epoch]);
      ASSERT_NEAR(options.peak * factor.value, expected[epoch], 1e-12)
          << one["options"] << " epoch " << epoch;
    }
    EXPECT_LT(factor.value, 1);
  }
}

TEST(LearningRate, NamesOfKindsAreUnderstood) {
  for (const std::string& name : rate_kind_names()) EXPECT_EQ(name_of(rate_kind_of(name)), name);
  EXPECT_EQ(rate_kind_of("plateau"), RateKind::kPlateau);
}

TEST(LearningRate, WrongOptionsAreRefused) {
  EXPECT_NO_THROW(validate(LearningRateOptions{}));
  EXPECT_THROW(validate(LearningRateOptions{.peak = -1}), ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.peak = std::numeric_limits<double>::infinity()}),
               ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.warmup_steps = -1}), ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.steps = 0}), ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.end = 2}), ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.start = -0.1}), ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.peak = 0.1, .start = 0.2}), ConfigError);
  for (const double power : {0.0, -1.0, 1e19, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(validate(LearningRateOptions{.power = power}), ConfigError) << power;
  }
  EXPECT_THROW(validate(LearningRateOptions{.gamma = 1}), ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.kind = RateKind::kStep}), ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.drops = {3, 2}}), ConfigError);
  EXPECT_THROW(validate(LearningRateOptions{.stall = {.patience = -1}}), ConfigError);
}

}  // namespace
}  // namespace daso
