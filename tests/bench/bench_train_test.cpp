// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "process.h"

// `daso bench train`, run like a user does, on the CPU. DASO_PROGRAM is its path.
namespace daso::test {
namespace {

using nlohmann::json;

constexpr Seconds kLimit{120};

json report_of(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {DASO_PROGRAM, "bench", "train",          "--device", "cpu",
                                    "--steps",    "3",     "--warmup-steps", "1",        "--json",
                                    "--size",     "8",     "--classes",      "7"};
  words.insert(words.end(), flags.begin(), flags.end());
  Process process(words);
  const int code = process.wait(kLimit).code;
  EXPECT_EQ(code, 0) << process.standard_error();
  return code == 0 ? json::parse(process.standard_output()) : json();
}

TEST(BenchTrain, SaysHowManyImagesAStepIs) {
  const json report = report_of({"--model", "cnn", "--batch-size", "4"});
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("device"), "cpu");
  EXPECT_EQ(report.at("graph"), false);
  EXPECT_EQ(report.at("optimizer"), "sgd");
  EXPECT_EQ(report.at("strategy"), "none");
  EXPECT_EQ(report.at("steps"), 3);
  EXPECT_EQ(report.at("device_bytes"), 0);
  // Convolutions, BatchNorm and the last layer.
  EXPECT_EQ(report.at("parameters"),
            9 * (3 * 32 + 32 * 64 + 64 * 128) + 2 * (32 + 64 + 128) + 129 * 7);
  const double seconds = report.at("seconds_per_step").get<double>();
  EXPECT_GT(seconds, 0);
  EXPECT_DOUBLE_EQ(report.at("examples_per_second").get<double>(), 4 / seconds);
  EXPECT_FALSE(report.contains("tokens_per_second"));
  // Noise with 7 classes: a network that knows nothing yet gives each about as much.
  EXPECT_NEAR(report.at("loss").get<double>(), std::log(7), 1);
}

TEST(BenchTrain, CountsTheTokensOfTexts) {
  const json report =
      report_of({"--model", "transformer", "--layers", "1", "--embedding", "8", "--heads", "2",
                 "--length", "5", "--batch-size", "2", "--precision", "bf16"});
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("optimizer"), "adamw");
  EXPECT_EQ(report.at("precision"), "bf16");
  EXPECT_DOUBLE_EQ(report.at("tokens_per_second").get<double>(),
                   10 / report.at("seconds_per_step").get<double>());
}

TEST(BenchTrain, TrainsOnSeveralRanksWithEveryStrategy) {
  for (const char* strategy : {"none", "node", "sync", "local", "daso"}) {
    const json report = report_of({"--model", "mlp", "--batch-size", "4", "--strategy", strategy,
                                   "--nodes", "2", "--ranks-per-node", "1"});
    ASSERT_TRUE(report.is_object()) << strategy;
    EXPECT_EQ(report.at("ranks"), 2);
    const bool in_rounds = report.at("steps") != 3;  // of skip, 4
    EXPECT_EQ(in_rounds, std::string(strategy) == "daso" || std::string(strategy) == "local");
    EXPECT_DOUBLE_EQ(report.at("examples_per_second").get<double>(),
                     8 / report.at("seconds_per_step").get<double>());
  }
}

TEST(BenchTrain, TakesWhatMeansNothingOnTheCpu) {
  EXPECT_TRUE(report_of({"--model", "mlp", "--graphs", "off", "--deterministic"}).is_object());
}

TEST(BenchTrain, MistakesAreRefused) {
  struct Mistake {
    std::vector<std::string> flags;
    std::string said;
  };
  const std::vector<Mistake> mistakes = {
      {{"--model", "resnet5"}, "did you mean"},
      {{"--device", "gpu"}, "a device is cpu, cuda"},
      {{"--graphs", "on"}, "--graphs takes"},
      {{"--steps", "0"}, "at least 1"},
      {{"--device", "cpu", "--size", "8"}, "needs images of at least 32x32"},
      {{"--skip", "4"}, "--skip changes nothing here"},
  };
  for (const Mistake& mistake : mistakes) {
    std::vector<std::string> words = {DASO_PROGRAM, "bench", "train"};
    words.insert(words.end(), mistake.flags.begin(), mistake.flags.end());
    Process process(words);
    EXPECT_EQ(process.wait(kLimit).code, 2) << process.standard_output();
    const std::string error = process.standard_error();
    EXPECT_NE(error.find(mistake.said), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace daso::test
