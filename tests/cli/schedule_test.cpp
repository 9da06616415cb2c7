// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/policy/cycle.h"
#include "process.h"

// `daso schedule`, run like a user does, against the library and the golden cases.
namespace daso::test {
namespace {

using nlohmann::json;

struct Answer {
  int code = 0;
  std::string output;
  std::string error;
};

Answer schedule(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {DASO_PROGRAM, "schedule"});
  Process process(arguments);
  const int code = process.wait(Seconds(60)).code;
  return {code, process.standard_output(), process.standard_error()};
}

json report(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Answer result = schedule(std::move(arguments));
  EXPECT_EQ(result.code, 0) << result.error;
  return json::parse(result.output);
}

json golden(const std::string& name) {
  std::ifstream file(std::filesystem::path(DASO_GOLDEN) / name);
  return json::parse(file);
}

std::string list_of(const json& numbers) {
  std::vector<std::string> words;
  for (const json& number : numbers) words.push_back(number.is_null() ? "nan" : number.dump());
  return join(words, ",");
}

json starts_of(const json& found) {
  json starts = json::array();
  for (const json& epoch : found.at("trajectory")) {
    starts.insert(starts.end(), epoch.at("starts").begin(), epoch.at("starts").end());
  }
  return starts;
}

// What is printed as the learning rate of each epoch, which is that of its first step.
void expect_rates(const json& found, const std::vector<double>& expected) {
  const json& trajectory = found.at("trajectory");
  ASSERT_EQ(trajectory.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_DOUBLE_EQ(trajectory.at(i).at("learning_rate").get<double>(), expected[i]) << i;
  }
}

TEST(ScheduleCommand, PlateauPrintsTheGoldenTrajectories) {
  for (const json& one : golden("schedules.json")) {
    const json found = report({"--schedule", "plateau",                                 //
                               "--losses", list_of(one.at("losses")),                   //
                               "--skip", one.at("skip").dump(),                         //
                               "--wait", one.at("wait").dump(),                         //
                               "--warmup-epochs", one.at("warmup").dump(),              //
                               "--cooldown-epochs", one.at("cooldown").dump(),          //
                               "--patience", std::to_string(one.value("patience", 2)),  //
                               "--threshold", std::to_string(one.value("threshold", 0.05))});
    json trajectory = json::array();
    for (const json& epoch : found.at("trajectory")) {
      trajectory.push_back({epoch.at("phase"), epoch.at("skip"), epoch.at("wait")});
    }
    EXPECT_EQ(trajectory, one.at("expect")) << one.at("name");
  }
}

TEST(ScheduleCommand, RatePrintsTheGoldenStarts) {
  const std::string file = testing::TempDir() + "daso_learning_rates.txt";
  for (const json& one : golden("periods.json")) {
    std::ofstream(file) << list_of(one.at("learning_rates")) << "\n";
    const json found =
        report({"--learning-rates", file, "--batches", one.at("batches").dump(), "--skip",
                one.at("skip").dump(), "--alpha", one.at("alpha").dump(), "--warmup-epochs", "0"});
    EXPECT_EQ(starts_of(found), one.at("expect")) << one.at("name");
  }
  std::filesystem::remove(file);
}

TEST(ScheduleCommand, DefaultsAreThoseOfTheLibrary) {
  const json found = report({"--lr", "0.3", "--epochs", "6", "--batches", "50", "--nodes", "10"});
  const LearningRateOptions rate{.peak = 0.3, .warmup_steps = 50, .steps = 300};
  const auto epochs =
      trajectory_of(Schedule({.kind = ScheduleKind::kRate,
                              .phases = {.epochs = 6, .warmup = 1},
                              .cadence = {.skip = 3, .wait = 1},
                              .alpha = 0.3}),
                    Cycle({.nodes = 10}), {.epochs = 6, .batches = 50, .rate = rate_of(rate)},
                    [](int) { return 0.0; });
  std::int64_t exchanges = 0;
  json starts = json::array();
  for (const EpochTrajectory& epoch : epochs) {
    exchanges += epoch.exchanges;
    for (const auto& [step, skip] : epoch.starts) starts.push_back({step, skip});
  }
  EXPECT_EQ(starts_of(found), starts);
  EXPECT_EQ(found.at("exchanges"), exchanges);
  EXPECT_EQ(found.at("agreements"), 5);
  EXPECT_EQ(found.at("warmup_epochs"), 1);
  EXPECT_EQ(found.at("alpha"), 0.3);
  EXPECT_TRUE(found.at("warnings").empty());
}

// A warm-up of W steps has start + (peak - start) / W in its first.
TEST(ScheduleCommand, LearningRatesAreThoseOfTheFlagsOfTrain) {
  const auto rates_with = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--epochs", "4", "--batches", "10"});
    return report(std::move(arguments));
  };
  expect_rates(rates_with({"--lr", "0.8", "--lr-schedule", "step", "--lr-steps", "2,3",
                           "--lr-gamma", "0.5"}),
               {0.08, 0.8, 0.4, 0.2});
  // A line from 0.4 to its half.
  expect_rates(rates_with({"--lr", "0.4", "--lr-schedule", "polynomial", "--lr-power", "1",
                           "--lr-end", "0.5", "--lr-warmup-epochs", "0"}),
               {0.4, 0.35, 0.3, 0.25});
  const json constant = rates_with(
      {"--lr", "0.3", "--lr-schedule", "constant", "--lr-start", "0.1", "--lr-warmup-epochs", "2"});
  expect_rates(constant, {0.11, 0.21, 0.3, 0.3});
  EXPECT_EQ(constant.at("warmup_epochs"), 2);
}

TEST(ScheduleCommand, BaseRateIsScaledByTheSamplesOfAStep) {
  // 64 samples, twice, on 8 ranks are 4 times 256; the warm-up begins at the base rate.
  const json found =
      report({"--base-lr", "0.1", "--batch-size", "64", "--accumulate", "2", "--nodes", "4",
              "--ranks-per-node", "2", "--lr-end", "0", "--epochs", "3", "--batches", "10"});
  expect_rates(found, {0.13, 0.4, 0.2});  // the last epoch begins halfway down the cosine
  EXPECT_DOUBLE_EQ(found.at("alpha").get<double>(), 0.4);
  // The defaults of daso train: 32 samples on each of 2 x 2 ranks are half of 256.
  const json usual = report({"--base-lr", "0.2"});
  EXPECT_DOUBLE_EQ(usual.at("alpha").get<double>(), 0.1);
}

TEST(ScheduleCommand, PeriodsFollowARateThatFallsByAStep) {
  // A quarter of the rate: a skip of 4 x 4.
  const json found = report({"--lr", "0.4", "--lr-schedule", "step", "--lr-steps", "2",
                             "--lr-gamma", "0.25", "--epochs", "3", "--batches", "40"});
  EXPECT_EQ(found.at("trajectory").at(1).at("starts").size(), 10U);
  EXPECT_EQ(found.at("trajectory").at(2).at("starts"), json({{80, 16}, {96, 16}, {112, 16}}));
  EXPECT_EQ(found.at("exchanges"), 15);
}

TEST(ScheduleCommand, SkipsOfAnEpochAreThoseOfItsStarts) {
  // With a quarter of the rate from step 4 on a start after it has a skip of 16.
  std::vector<std::string> rates(24, "0.1");
  std::fill_n(rates.begin(), 4, "0.4");
  const std::vector<std::string> flags = {"--learning-rates", join(rates, ","), "--batches", "24",
                                          "--warmup-epochs",  "0",              "--alpha",   "0.4"};
  const json epoch = report(flags).at("trajectory").at(0);
  EXPECT_EQ(epoch.at("starts"), json({{0, 4}, {4, 16}, {20, 16}}));
  EXPECT_EQ(epoch.at("skip"), 4);
  EXPECT_EQ(epoch.at("longest_skip"), 16);
  EXPECT_NE(schedule(flags).output.find("cycling     4-16     1"), std::string::npos)
      << schedule(flags).output;
}

TEST(ScheduleCommand, FixedCountsItsExchanges) {
  // 10 steps: starts at 0, 4, 8 and the agreement at 9, in 2 of 4 epochs.
  const json found =
      report({"--schedule", "fixed", "--epochs", "4", "--batches", "10", "--cooldown-epochs", "1"});
  EXPECT_EQ(found.at("exchanges"), 8);
  EXPECT_EQ(found.at("agreements"), 2);
  EXPECT_EQ(found.at("trajectory").at(1).at("starts"), json({{10, 4}, {14, 4}, {18, 4}}));
  // Nothing to exchange on one node.
  EXPECT_EQ(report({"--schedule", "fixed", "--nodes", "1"}).at("exchanges"), 0);
}

TEST(ScheduleCommand, FlagOverridesItsPartOfThePreset) {
  const std::string losses = "1,1,1,1,1,1,1,1,1,1";
  const json paper = report({"--preset", "paper", "--losses", losses});
  EXPECT_EQ(paper.at("schedule"), "plateau");
  EXPECT_EQ(paper.at("warmup_epochs"), 4);
  EXPECT_EQ(paper.at("cooldown_epochs"), 4);
  const json other =
      report({"--preset", "paper", "--losses", losses, "--warmup-epochs", "2", "--skip", "8"});
  EXPECT_EQ(other.at("warmup_epochs"), 2);
  EXPECT_EQ(other.at("cooldown_epochs"), 4);
  EXPECT_EQ(other.at("skip"), 8);
  EXPECT_EQ(report({"--preset", "paper", "--schedule", "fixed"}).at("schedule"), "fixed");
}

// A run's own flags, all of them: a script that knows --preset default of train may give it here.
TEST(ScheduleCommand, PresetsAreThoseOfTrain) {
  const json usual = report({});
  EXPECT_EQ(report({"--preset", "default"}), usual);
  EXPECT_EQ(report({"--preset", "default", "--skip", "1"}).at("wait"), 1);
}

TEST(ScheduleCommand, RisksAreNamed) {
  const std::vector<std::string> arguments = {"--schedule", "fixed", "--nodes", "16",
                                              "--skip",     "4",     "--wait",  "2"};
  EXPECT_EQ(report(arguments).at("warnings").size(), 2U);
  const Answer table = schedule(arguments);
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.error.find("daso: warning: a wait of 2 on 16 nodes"), std::string::npos);
}

TEST(ScheduleCommand, TableGathersEqualRounds) {
  const Answer table =
      schedule({"--schedule", "fixed", "--epochs", "2", "--batches", "10", "--nodes", "4"});
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.output.find("10:4 x3\n"), std::string::npos) << table.output;
  EXPECT_NE(table.output.find("4 exchanges in 20 steps, 1 of them agreements\n"), std::string::npos)
      << table.output;
}

TEST(ScheduleCommand, MistakesEndWithTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--schedule", "rat"}, "did you mean rate?"},
      {{"--skips", "4"}, "did you mean --skip?"},
      {{"--preset", "papr"}, "did you mean paper?"},
      {{"--skip", "0"}, "--skip takes a whole number of at least 1, got '0'"},
      {{"--skip", "2", "--wait", "3"}, "wait must lie in 1 ... skip (2), got 3"},
      {{"--schedule", "plateau"}, "--losses"},
      {{"--losses", "1,2"}, "--losses changes nothing here: it is for --schedule plateau"},
      {{"--schedule", "fixed", "--alpha", "1"},
       "--alpha changes nothing here: it is for --schedule rate"},
      {{"--patience", "1"}, "--patience changes nothing here: it is for --schedule plateau"},
      {{"--threshold", "0.1"}, "--threshold changes nothing here: it is for --schedule plateau"},
      {{"--alpha", "0"}, "alpha must be a learning rate above 0, got 0"},
      {{"--alpha", "nan"}, "--alpha takes a number, got 'nan'"},
      {{"--lr", "-1"}, "--lr must be above 0, got -1"},
      {{"--lr", "0.1", "--base-lr", "0.1"}, "--base-lr the rate for 256 samples"},
      {{"--lr-schedule", "plateau"}, "--lr-schedule plateau follows the training loss"},
      {{"--lr-schedule", "plateau"}, "--learning-rates"},
      {{"--lr-schedule", "step"}, "--lr-schedule step needs --lr-steps"},
      {{"--lr-schedule", "step", "--lr-steps", "12"}, "between 0 and --epochs 10, got 12"},
      {{"--lr-power", "2"}, "--lr-power changes nothing here: it is for --lr-schedule polynomial"},
      {{"--batch-size", "64"}, "--batch-size changes nothing here: it is for --base-lr"},
      {{"--ranks-per-node", "4"}, "--ranks-per-node changes nothing here: it is for --base-lr"},
      {{"--schedule", "plateau", "--losses", "1,x"}, "'x' is no number, and there is no such file"},
      {{"--schedule", "plateau", "--losses", "1,2", "--epochs", "3"},
       "one loss an epoch: 3 for this run, got 2"},
      {{"--schedule", "plateau", "--losses", "1,2", "--threshold", "1"}, "threshold"},
      {{"--learning-rates", "1,1,1", "--batches", "2"},
       "one rate a step: 4 for 2 epochs of 2 steps, got 3"},
      {{"--learning-rates", "1,nan", "--batches", "2"}, "finite"},
      {{"--learning-rates", "1,1", "--batches", "2", "--lr", "1"}, "give one of them"},
      {{"--learning-rates", "1,1", "--batches", "2", "--lr-schedule", "constant"},
       "--lr-schedule would change nothing: give one of them"},
      {{"--epochs", "1000000", "--batches", "1000000"}, "the limit is 100000000 steps"},
  };
  for (const auto& [arguments, said] : mistakes) {
    const Answer result = schedule(arguments);
    EXPECT_EQ(result.code, 2) << result.error;
    EXPECT_EQ(result.output, "");
    EXPECT_NE(result.error.find(said), std::string::npos) << said << "\n" << result.error;
    EXPECT_NE(result.error.find("\nsee daso schedule --help\n"), std::string::npos)
        << result.error;
  }
}

}  // namespace
}  // namespace daso::test
