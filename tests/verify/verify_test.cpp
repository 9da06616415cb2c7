// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "process.h"

// `daso verify`, run like a user does. DASO_PROGRAM is its path, DASO_GOLDEN the folder of golden
// cases, DASO_GENERATOR the other program that makes some.
namespace daso::test {
namespace {

using nlohmann::json;

constexpr Seconds kLimit{240};

struct Result {
  int code = 0;
  std::string output;
  std::string error;
};

Result run(const std::vector<std::string>& command) {
  Process process(command);
  const int code = process.wait(kLimit).code;
  return {code, process.standard_output(), process.standard_error()};
}

Result verify(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {DASO_PROGRAM, "verify"});
  return run(arguments);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string golden(const std::string& name) { return std::string(DASO_GOLDEN) + "/" + name; }

std::vector<std::string> all_golden() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(DASO_GOLDEN)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A folder for the files of a test; gone with the object.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("daso_verify_" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const json& document) const {
    std::ofstream(path_ / name) << document;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

json document(const std::string& name) {
  std::ifstream file(golden(name));
  return json::parse(file);
}

void expect_all_hold(const std::vector<std::string>& arguments, int cases) {
  const Result result = verify(arguments);
  EXPECT_EQ(result.code, 0) << result.output << result.error;
  EXPECT_EQ(result.error, "");
  const std::string number = std::to_string(cases);
  EXPECT_TRUE(contains(result.output, "\n" + number + " of " + number + " cases hold"))
      << result.output;
  EXPECT_FALSE(contains(result.output, "FAIL"));
}

constexpr int kCases = 12 + 9 + 4 + 2;  // training, schedules, periods, wire

TEST(Verify, GoldenCasesHoldOnThreads) {
  for (const char* exchange : {"rotating", "sharded"}) {
    expect_all_hold(with(all_golden(), {"--ranks", "threads", "--exchange", exchange}), kCases);
  }
}

TEST(Verify, GoldenCasesHoldOnProcesses) {
  // Nodes of 3 and 1 ranks, all phases, momentum.
  const std::vector<std::string> files = {golden("unequal_nodes_all_phases.json"),
                                          golden("periods.json")};
  expect_all_hold(with(files, {"--exchange", "rotating"}), 5);
  expect_all_hold(with(files, {"--exchange", "sharded", "--ranks", "processes"}), 5);
}

TEST(SlowVerify, AllGoldenCasesHoldOnProcesses) {
  for (const char* exchange : {"rotating", "sharded"}) {
    expect_all_hold(with(all_golden(), {"--exchange", exchange}), kCases);
  }
}

TEST(Verify, LossyWiresStayWithinTheirBound) {
  for (const char* wire : {"bf16", "fp16", "int8", "int4", "qsgd8"}) {
    const Result result = verify(with(all_golden(), {"--ranks", "threads", "--wire", wire}));
    EXPECT_EQ(result.code, 0) << result.output << result.error;
    EXPECT_TRUE(contains(result.output, ", bound ")) << result.output;
    EXPECT_TRUE(contains(result.output, std::string("(tcp, sharded, ") + wire + ")"));
  }
}

// The bound would be worth nothing if a run by another rule stayed within it.
TEST(Verify, WrongMergeRuleExceedsTheBoundOfEveryLossyWire) {
  const Folder folder;
  for (const char* name : {"skip4_wait1_paper.json", "unequal_nodes_corrected_momentum.json"}) {
    json one = document(name);
    one["merge"] = one["merge"] == "paper" ? "corrected" : "paper";
    const std::string file = folder.write("other_rule.json", one);
    for (const char* wire : {"bf16", "fp16", "int8"}) {
      const Result result = verify({file, "--ranks", "threads", "--wire", wire});
      EXPECT_EQ(result.code, 1) << name << " " << wire << "\n" << result.output;
      EXPECT_TRUE(contains(result.output, "(bound ")) << result.output;
    }
  }
}

// Among those of this seed: 1 rank, 12 ranks, 1 batch an epoch, nodes of all sizes, 2500
// parameters.
TEST(Verify, CasesOfAnotherProgramHold) {
  const Folder folder;
  std::vector<std::string> files;
  for (int i = 0; i < 10; ++i) files.push_back(folder.path(std::to_string(i) + ".json"));
  const Result made = run(with({"python3", DASO_GENERATOR, "make", "83"}, files));
  ASSERT_EQ(made.code, 0) << made.error;
  for (const char* exchange : {"rotating", "sharded"}) {
    expect_all_hold(with(files, {"--ranks", "threads", "--exchange", exchange}), 10);
  }
  const Result lossy = verify(with(files, {"--ranks", "threads", "--wire", "int8"}));
  EXPECT_EQ(lossy.code, 0) << lossy.output << lossy.error;
}

TEST(Verify, ChangedNumberIsFoundAndNamed) {
  const Folder folder;
  json one = document("unequal_nodes_paper.json");
  json& number = one["expect"]["parameters"][5][2][1];
  number = number.get<double>() + 2e-5;  // twice the tolerance
  const std::string file = folder.write("changed.json", one);
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {}, {"--ranks", "threads"}, {"--ranks", "threads", "--exchange", "sharded"}}) {
    const Result result = verify(with({file, golden("one_node.json")}, more));
    EXPECT_EQ(result.code, 1) << result.error;
    EXPECT_TRUE(contains(result.output,
                         "FAIL  unequal_nodes_paper: step 5, node 2, rank 3, element 1: got "))
        << result.output;
    EXPECT_TRUE(contains(result.output, "(tolerance 1e-05)")) << result.output;
    EXPECT_TRUE(contains(result.output, "ok    one_node  4 ranks on 1 nodes, 6 steps, 0 events"))
        << result.output;
    EXPECT_TRUE(contains(result.output, "1 of 2 cases hold")) << result.output;
  }
}

TEST(Verify, ChangedEventIsFoundAndNamed) {
  const Folder folder;
  json one = document("skip4_wait1_paper.json");
  one["expect"]["events"][2]["speakers"] = {0, 1};
  const Result result = verify({folder.write("changed.json", one), "--ranks", "threads"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(
      result.output,
      R"(step 4, rank 0, event 2: got {"step":4,"do":"start","exchange":1,"speakers":[1,1]}, )"
      R"(expected {"step":4,"do":"start","exchange":1,"speakers":[0,1]})"))
      << result.output;
}

TEST(Verify, ChangedPoliciesAreFoundAndNamed) {
  const Folder folder;
  json schedules = document("schedules.json");
  schedules[0]["expect"][7] = {"cycling", 4, 1};
  json periods = document("periods.json");
  periods[1]["expect"].erase(periods[1]["expect"].size() - 1);
  json wire = document("wire.json");
  wire[1]["rounds"][1]["back_q"][3] = 128;
  const Result result =
      verify({folder.write("schedules.json", schedules), folder.write("periods.json", periods),
              folder.write("wire.json", wire)});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.output,
                       R"(FAIL  constant loss: epoch 7: got ["cycling",2,1], expected )"
                       R"(["cycling",4,1])"))
      << result.output;
  EXPECT_TRUE(contains(result.output, "expected nothing")) << result.output;
  EXPECT_TRUE(contains(result.output, "FAIL  wire 1: round 1, back_q[3]: got ")) << result.output;
  EXPECT_TRUE(contains(result.output, "12 of 15 cases hold")) << result.output;
}

TEST(Verify, JsonTellsWhatEveryCaseCameTo) {
  const Folder folder;
  json one = document("skip2_wait1_paper.json");
  one["expect"]["parameters"][3][1][0] = 9.5;
  const Result result = verify({folder.write("changed.json", one), golden("schedules.json"),
                                golden("all_phases.json"), "--ranks", "threads", "--json"});
  EXPECT_EQ(result.code, 1);
  const json report = json::parse(result.output);
  EXPECT_EQ(report.at("ok"), false);
  EXPECT_EQ(report.at("held"), 10);
  EXPECT_EQ(report.at("failed"), 1);
  const json& changed = report.at("cases").at(0);
  EXPECT_EQ(changed.at("ok"), false);
  EXPECT_EQ(changed.at("difference").at("step"), 3);
  EXPECT_EQ(changed.at("difference").at("node"), 1);
  EXPECT_EQ(changed.at("difference").at("rank"), 2);
  EXPECT_EQ(changed.at("difference").at("element"), 0);
  EXPECT_EQ(changed.at("difference").at("expected"), 9.5);
  const json& held = report.at("cases").back();
  EXPECT_EQ(held.at("name"), "all_phases");
  EXPECT_EQ(held.at("ranks"), 4);
  EXPECT_EQ(held.at("steps"), 24);
  EXPECT_LT(held.at("largest_difference").get<double>(), 1e-5);
  EXPECT_FALSE(held.contains("difference"));
}

TEST(Verify, OneCaseCanBeChosen) {
  expect_all_hold({golden("schedules.json"), golden("one_node.json"), "--case", "skip 16"}, 1);
}

TEST(Verify, WhatCannotBeUnderstoodEndsWithTwo) {
  const Folder folder;
  json fewer = document("one_node.json");
  fewer["targets"].erase(0);
  const std::string file = folder.write("fewer.json", fewer);
  const std::string right = golden("one_node.json");
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{}, "FILE"},
      {{"/nowhere.json"}, "/nowhere.json: there is no such file"},
      // No rank starts, not for the right file either.
      {{right, file}, "fewer.json: targets: takes one list for each of the 4 ranks, got 3"},
      {{right, "--wire", "in8"}, "did you mean int8?"},
      {{right, "--wire", "int8", "--exchange", "rotating"}, "rotating sends fp32 only"},
      {{right, "--ranks", "threads", "--backend", "mpi"}, "an MPI rank is a process"},
      {{right, "--ranks", "thread"}, "did you mean threads?"},
      {{right, "--case", "one_nod"}, "did you mean 'one_node'?"},
      {{right, "--nodes", "2"}, "has no flag --nodes"},
  };
  for (const auto& [arguments, said] : mistakes) {
    const Result result = verify(arguments);
    EXPECT_EQ(result.code, 2) << said << result.error;
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(contains(result.error, said)) << said << "\n" << result.error;
  }
}

TEST(Verify, JoinsAWorldThatIsAlreadyThere) {
  // Four ranks, cut into one node, into two and into four.
  const std::vector<std::string> files = {golden("one_node.json"),
                                          golden("unequal_nodes_all_phases.json"),
                                          golden("one_rank_per_node.json"), golden("periods.json")};
  const std::vector<std::string> launcher = {DASO_PROGRAM, "run",   "--ranks-per-node", "4", "--",
                                             DASO_PROGRAM, "verify"};
  const Result result = run(with(launcher, files));
  EXPECT_EQ(result.code, 0) << result.output << result.error;
  EXPECT_TRUE(contains(result.output, "7 of 7 cases hold")) << result.output;
  const Result six = run(with(launcher, {golden("unequal_nodes_paper.json")}));
  EXPECT_EQ(six.code, 2);
  EXPECT_TRUE(contains(six.error, "case 'unequal_nodes_paper' has 6 ranks")) << six.error;
}

// The launcher's children, in the order in which it started them. The ranks come last.
std::vector<pid_t> children_of(pid_t parent) {
  const std::string number = std::to_string(parent);
  std::ifstream file("/proc/" + number + "/task/" + number + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

TEST(Verify, LostRankEndsWithThree) {
  // Without curvature nothing moves; so many steps that it does not end by itself.
  constexpr int kSteps = 200000;
  const Folder folder;
  const json endless = {
      {"name", "endless"},
      {"nodes", {1, 1}},
      {"start", {0}},
      {"curvature", {0}},
      {"targets", {{0}, {0}}},
      {"lr", 0.1},
      {"merge", "paper"},
      {"batches", kSteps},
      {"schedule", json::array({json::array({"cycling", 1, 1})})},
      {"expect", {{"events", json::array()}, {"parameters", json(kSteps, {{0}, {0}})}}},
      {"tolerance", 1}};
  Process job({DASO_PROGRAM, "verify", folder.write("endless.json", endless)});
  ASSERT_TRUE(holds_within(kLimit, [&] { return children_of(job.pid()).size() >= 3; }));
  ASSERT_EQ(::kill(children_of(job.pid()).back(), SIGKILL), 0);
  EXPECT_EQ(job.wait(kLimit).code, 3);
  EXPECT_TRUE(contains(job.standard_error(), "rank 1 (node1.0) was ended by signal 9"))
      << job.standard_error();
  EXPECT_TRUE(contains(job.standard_output(), "FAIL  endless: its ranks ended with exit code 3"))
      << job.standard_output();
}

}  // namespace
}  // namespace daso::test
