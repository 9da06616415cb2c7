// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "process.h"

// `daso bench step`, run like a user does. DASO_PROGRAM is its path.
namespace daso::test {
namespace {

using nlohmann::json;

constexpr Seconds kLimit{60};

Process start(const std::vector<std::string>& flags) {
  // 4608 elements are 18 blocks of 256, which 2 ranks and then 3 nodes share without a rest.
  std::vector<std::string> words = {DASO_PROGRAM, "bench",          "step", "--layers",
                                    "7",          "--parameters",   "4608", "--forward-ms",
                                    "1",          "--backward-ms",  "2",    "--steps",
                                    "8",          "--warmup-steps", "4"};
  words.insert(words.end(), flags.begin(), flags.end());
  return {words};
}

json report_of(std::vector<std::string> flags) {
  flags.emplace_back("--json");
  Process process = start(flags);
  const int code = process.wait(kLimit).code;
  EXPECT_EQ(code, 0) << process.standard_error();
  return code == 0 ? json::parse(process.standard_output()) : json();
}

// Between nodes an element travels 2 (N - 1) / N times: to the owner of its segment, and back.
constexpr double kOnThreeNodes = 2.0 * 2 / 3;
constexpr double kElements = 4608;
constexpr double kSkip = 4;

struct Traffic {
  std::vector<std::string> flags;
  double bytes = 0;  // per step and node
};

TEST(BenchStep, BytesBetweenNodesAreThoseOfTheStrategy) {
  const double fp32 = kOnThreeNodes * kElements * 4;
  const double int8 = kOnThreeNodes * kElements / 256 * 260;
  const double int4 = kOnThreeNodes * kElements / 256 * 132;
  const std::vector<Traffic> all = {
      {{"--strategy", "none"}, 0},
      {{"--strategy", "node"}, 0},
      {{"--strategy", "sync"}, fp32},
      {{"--strategy", "local"}, fp32 / kSkip},
      {{"--strategy", "daso", "--wait", "2"}, int8 / kSkip},
      {{"--strategy", "daso", "--wire", "bf16", "--merge", "paper"}, fp32 / 2 / kSkip},
      {{"--strategy", "daso", "--wire", "int4"}, int4 / kSkip},
      {{"--strategy", "daso", "--wire", "qsgd4"}, int4 / kSkip},
      {{"--strategy", "daso", "--wire", "qsgd1"}, int4 * 36 / 132 / kSkip},
      {{"--strategy", "daso", "--exchange", "rotating"}, fp32 / kSkip},
  };
  for (Traffic traffic : all) {
    traffic.flags.insert(traffic.flags.end(), {"--nodes", "3", "--ranks-per-node", "2"});
    const json report = report_of(traffic.flags);
    ASSERT_TRUE(report.is_object());
    EXPECT_EQ(report.at("strategy"), traffic.flags[1]);
    EXPECT_DOUBLE_EQ(report.at("bytes_between_nodes").get<double>(), traffic.bytes) << report;
    EXPECT_EQ(report.at("nodes"), 3);
    EXPECT_EQ(report.at("ranks"), 6);
    EXPECT_DOUBLE_EQ(report.at("seconds_ideal").get<double>(), 0.003);
    EXPECT_GE(report.at("seconds_per_step").get<double>(), 0.003);
    const double waited = report.at("wait_seconds").get<double>();
    EXPECT_GE(waited, 0);
    EXPECT_LE(waited, report.at("seconds_per_step").get<double>());
    EXPECT_TRUE(traffic.flags[1] != "none" || waited == 0) << report;
  }
}

TEST(BenchStep, DefaultsAreThoseOfTheExchange) {
  const json sharded = report_of({"--nodes", "2", "--ranks-per-node", "1"});
  ASSERT_TRUE(sharded.is_object());
  EXPECT_EQ(sharded.at("strategy"), "daso");
  EXPECT_EQ(sharded.at("exchange"), "sharded");
  EXPECT_EQ(sharded.at("wire"), "int8");
  EXPECT_EQ(sharded.at("merge"), "corrected");
  EXPECT_EQ(sharded.at("skip"), 4);
  EXPECT_EQ(sharded.at("wait"), 1);
  const json rotating =
      report_of({"--nodes", "2", "--ranks-per-node", "1", "--exchange", "rotating"});
  ASSERT_TRUE(rotating.is_object());
  EXPECT_EQ(rotating.at("wire"), "fp32");
}

TEST(BenchStep, MeasuresWholeRounds) {
  const std::vector<std::string> flags = {"--nodes", "2", "--ranks-per-node", "1", "--skip", "3"};
  const json report = report_of(flags);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("steps_asked"), 8);
  EXPECT_EQ(report.at("steps"), 9);
  EXPECT_EQ(report.at("warmup_steps"), 6);
  Process process = start(flags);
  ASSERT_EQ(process.wait(kLimit).code, 0) << process.standard_error();
  const std::string shown = process.standard_output();
  EXPECT_NE(shown.find("9 steps after 6 of warm-up; 8 were asked for"), std::string::npos) << shown;
}

TEST(BenchStep, EpochsEndWithAnAgreement) {
  const std::vector<std::string> flags = {"--nodes", "2",    "--ranks-per-node", "1",
                                          "--wire",  "fp32", "--batches"};
  // Of 4 steps of an epoch the first starts an exchange and the last agrees on parameters and
  // momentum: 3 models an epoch. An element travels once, to its owner or back: N is 2.
  std::vector<std::string> four = flags;
  four.emplace_back("4");
  const json report = report_of(four);
  ASSERT_TRUE(report.is_object());
  EXPECT_DOUBLE_EQ(report.at("bytes_between_nodes").get<double>(), 3 * kElements * 4 / 4);
  EXPECT_EQ(report.at("batches"), 4);
  for (const char* strategy : {"none", "node", "sync", "local"}) {
    std::vector<std::string> five = flags;
    five.insert(five.end(), {"5", "--strategy", strategy});
    EXPECT_TRUE(report_of(five).is_object()) << strategy;
  }
}

TEST(BenchStep, AWorldOfOneIsAWorld) {
  for (const char* strategy : {"none", "node", "sync", "local", "daso"}) {
    const json report = report_of({"--backend", "self", "--strategy", strategy});
    ASSERT_TRUE(report.is_object());
    EXPECT_EQ(report.at("bytes_between_nodes"), 0);
  }
}

TEST(BenchStep, MistakesAreRefusedBeforeRanksStart) {
  struct Mistake {
    std::vector<std::string> flags;
    std::string said;
  };
  const std::vector<Mistake> mistakes = {
      {{"--strategy", "dazo"}, "did you mean daso?"},
      {{"--skip", "2", "--wait", "3"}, "wait"},
      {{"--exchange", "rotating", "--wire", "int8"}, "use --exchange sharded, or --wire fp32"},
      {{"--wire", "in8"}, "did you mean int8?"},
      {{"--merge", "mean"}, "--merge takes"},
      {{"--layers", "4609"}, "every layer needs at least one"},
      {{"--layers", "0"}, "at least 1"},
      {{"--forward-ms", "-1"}, "from 0 to"},
      {{"--backward-ms", "inf"}, "--backward-ms takes a number"},
      {{"--bucket-mb", "0"}, "at least one element"},
      {{"--steps", "0"}, "at least 1"},
      {{"--steps", "2000000000"}, "too many"},
      {{"--batches", "0"}, "at least 1"},
      {{"--noise", "-1"}, "takes a share from 0"},
      {{"--stall-chance", "2"}, "takes a probability from 0 to 1"},
      {{"--trace", "/no/such/folder/trace.json"}, "there is no folder /no/such/folder"},
  };
  for (const Mistake& mistake : mistakes) {
    // Given last: a flag is given once, so those of start() are left out.
    std::vector<std::string> words = {DASO_PROGRAM, "bench", "step", "--parameters", "4608"};
    words.insert(words.end(), mistake.flags.begin(), mistake.flags.end());
    Process process(words);
    EXPECT_EQ(process.wait(kLimit).code, 2) << process.standard_output();
    const std::string error = process.standard_error();
    EXPECT_NE(error.find(mistake.said), std::string::npos) << error;
    EXPECT_NE(error.find("\nsee daso bench step --help\n"), std::string::npos) << error;
    EXPECT_EQ(error.find("rank"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace daso::test
