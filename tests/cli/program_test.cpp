// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "process.h"
#include "scratch_folder.h"

// The program itself, run like a user does. DASO_PROGRAM is its path.
namespace daso::test {
namespace {

using nlohmann::json;

constexpr Seconds kLimit{60};

struct Result {
  int code = 0;
  std::string output;
  std::string error;
};

Process start(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), DASO_PROGRAM);
  return Process(arguments);
}

Result daso(const std::vector<std::string>& arguments) {
  Process process = start(arguments);
  const int code = process.wait(kLimit).code;
  return {code, process.standard_output(), process.standard_error()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Mistake {
  std::vector<std::string> arguments;
  std::string said;   // part of what stands on standard error
  std::string where;  // the command whose --help is named
};

TEST(Program, MistakesEndWithTwoAndTheNearestRightWord) {
  const std::vector<Mistake> mistakes = {
      {{"bench", "comm", "--rank-per-node", "2"},
       "did you mean --ranks-per-node?",
       "daso bench comm"},
      {{"bench", "comm", "--size=1K"}, "did you mean --sizes?", "daso bench comm"},
      {{"bench", "overlap", "--iteration", "9"},
       "did you mean --iterations?",
       "daso bench overlap"},
      {{"doctor", "--jsn"}, "did you mean --json?", "daso doctor"},
      {{"run", "-nodes", "2", "--", "true"}, "did you mean --nodes?", "daso run"},
      {{"--vesion"}, "did you mean --version?", "daso"},
      {{"bnch", "comm"}, "did you mean bench?", "daso"},
      {{"bench", "com"}, "did you mean comm?", "daso bench"},
      {{"bench"}, "needs a command: comm, overlap", "daso bench"},
      {{"bench", "comm", "--backend", "glo"}, "did you mean gloo?", "daso bench comm"},
      {{"bench", "comm", "--operations", "allreduce"},
       "did you mean all_reduce?",
       "daso bench comm"},
      {{"bench", "comm", "--dtype", "float3"}, "did you mean float32?", "daso bench comm"},
      {{"bench", "comm", "--sizes", "1K,6"}, "6 is no whole number of float32", "daso bench comm"},
      {{"bench", "comm", "--nodes", "two"}, "--nodes takes a whole number", "daso bench comm"},
      {{"bench", "comm", "--nodes"}, "--nodes", "daso bench comm"},
      {{"bench", "comm", "--nodes", "2", "--nodes", "2"}, "given once", "daso bench comm"},
      {{"bench", "comm", "--interface", "none0"}, "there are: ", "daso bench comm"},
      {{"bench", "comm", "--backend", "self", "--interface", "none0"},
       "there are: ",
       "daso bench comm"},
      {{"bench", "comm", "--backend", "self", "--node-index", "7"},
       "node index 7 does not exist",
       "daso bench comm"},
      {{"bench", "comm", "--", "x"}, "only 'daso run' takes --", "daso bench comm"},
      {{"train", "--loader-threads", "100000"},
       "--loader-threads takes a whole number in 1 ... 1024, got '100000'",
       "daso train"},
      {{"train", "--threads", "1025"}, "in 1 ... 1024, got '1025'", "daso train"},
      {{"eval", "run", "--loader-threads", "1025"}, "in 1 ... 1024, got '1025'", "daso eval"},
      {{"train", "--seed", "-1"}, "--seed takes a whole number in 0 ...", "daso train"},
      {{"train", "--seed=-1"}, "--seed takes a whole number in 0 ...", "daso train"},
      {{"compare", "--seed", "abc"}, "--seed takes a whole number in 0 ...", "daso compare"},
      {{"make", "text", "/proc/x", "--seed", "-1"},
       "--seed takes a whole number in 0 ...",
       "daso make text"},
      {{"bench", "step", "--seed", "99999999999999999999"},
       "got '99999999999999999999'",
       "daso bench step"},
      {{"make", "images", "/proc/x"},
       "make images /proc/x: the folder cannot be made: ",
       "daso make images"},
      {{"make", "images", "/proc/x", "--size", "100000"},
       "--size takes a whole number in 8 ... 2048, got '100000'",
       "daso make images"},
      {{"export", "run", "--to", "/"}, "--to /: is a folder; name the file", "daso export"},
      {{"report", "run", "--to", "/"}, "--to /: is a folder; name the file", "daso report"},
      {{"run", "program"}, "write the program after --", "daso run"},
      {{"run", "--nodes", "2"}, "needs a program after --", "daso run"},
  };
  for (const Mistake& mistake : mistakes) {
    const Result result = daso(mistake.arguments);
    EXPECT_EQ(result.code, 2) << result.error;
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(contains(result.error, mistake.said)) << result.error;
    EXPECT_TRUE(contains(result.error, "\nsee " + mistake.where + " --help\n")) << result.error;
  }
}

TEST(Program, HelpAndVersionEndWell) {
  const Result help = daso({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word : {"run", "doctor", "bench", "./daso test [--all]", "./daso lint [--all]",
                           "./daso build [PRESET]"}) {
    EXPECT_TRUE(contains(help.output, word)) << word;
  }
  EXPECT_EQ(daso({}).output, help.output);
  EXPECT_EQ(daso({}).code, 0);
  const Result version = daso({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(version.output.starts_with("daso "));
}

// What ./daso does is told once, by the program's own help.
TEST(Program, HelpOfACommandNamesItsPage) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> pages = {
      {{"train"}, "docs/training.md"},      {{"eval"}, "docs/using.md"},
      {{"export"}, "docs/using.md"},        {{"report"}, "docs/report.md"},
      {{"top"}, "docs/tracing.md"},         {{"make"}, "docs/data.md"},
      {{"make", "images"}, "docs/data.md"}, {{"make", "text"}, "docs/data.md"},
      {{"bench"}, "docs/measuring.md"},     {{"bench", "comm"}, "docs/measuring.md"},
      {{"compare"}, "docs/comparing.md"},   {{"schedule"}, "docs/schedules.md"},
      {{"verify"}, "docs/verify.md"},
  };
  for (const auto& [command, page] : pages) {
    std::vector<std::string> words = command;
    words.emplace_back("--help");
    const Result help = daso(words);
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(contains(help.output, page)) << help.output;
    EXPECT_FALSE(contains(help.output, "./daso test")) << help.output;
  }
}

TEST(Program, CommandsKeepTheNamesOfTheirFlags) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"run"}, {"doctor"}, {"bench", "comm"}, {"bench", "overlap"}}) {
    std::vector<std::string> words = command;
    words.emplace_back("--help");
    const Result help = daso(words);
    EXPECT_EQ(help.code, 0);
    for (const char* flag :
         {"--nodes", "--ranks-per-node", "--node-of-rank", "--node-index", "--backend",
          "--rendezvous", "--interface", "--job-token", "--timeout", "--join-timeout", "--grace"}) {
      EXPECT_TRUE(contains(help.output, flag)) << command.back() << " " << flag;
    }
  }
}

TEST(Doctor, TellsWhatIsHere) {
  const Result result = daso({"doctor", "--json"});
  ASSERT_EQ(result.code, 0) << result.error;
  const json report = json::parse(result.output);
  EXPECT_TRUE(report.at("usable").get<bool>());
  EXPECT_GE(report.at("cpu").at("cores").get<int>(), 1);
  EXPECT_GT(report.at("memory").at("total_bytes").get<std::int64_t>(), 0);
  EXPECT_EQ(report.at("topology").at("ranks"), 1);
  std::set<std::string> backends;
  for (const json& backend : report.at("backends")) {
    backends.insert(backend.at("name").get<std::string>());
    EXPECT_NE(backend.at("detail"), "");
  }
  EXPECT_EQ(backends, (std::set<std::string>{"gloo", "mpi", "self", "tcp"}));
  EXPECT_TRUE(contains(daso({"doctor"}).output, "daso can be used here."));
}

TEST(Doctor, MeasuresEveryPairOfNodes) {
  const Result result = daso({"doctor", "--ranks-per-node", "1,2,1", "--json"});
  ASSERT_EQ(result.code, 0) << result.error;
  const json report = json::parse(result.output);
  EXPECT_EQ(report.at("topology").at("nodes").at(1).at("ranks"), json({1, 2}));
  std::set<std::string> pairs;
  for (const json& pair : report.at("pairs")) {
    pairs.insert(pair.at("nodes").dump());
    EXPECT_GT(pair.at("latency_seconds").get<double>(), 0);
    EXPECT_GT(pair.at("bandwidth").get<double>(), 0);
  }
  EXPECT_EQ(pairs, (std::set<std::string>{R"(["node0","node1"])", R"(["node0","node2"])",
                                          R"(["node1","node2"])"}));
}

TEST(BenchComm, VerifiesEveryOperation) {
  const Result result = daso({"bench", "comm", "--nodes", "2", "--ranks-per-node", "1", "--sizes",
                              "0,12,1M", "--iterations", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.error;
  const json report = json::parse(result.output);
  EXPECT_TRUE(report.at("verified").get<bool>());
  EXPECT_EQ(report.at("ranks"), 2);
  ASSERT_EQ(report.at("results").size(), 6U * 3U);
  for (const json& one : report.at("results")) {
    EXPECT_TRUE(one.at("verified").get<bool>()) << one;
    EXPECT_EQ(one.at("iterations"), 3);
    const double seconds = one.at("seconds").get<double>();
    const double algorithm = one.at("algorithm_bandwidth").get<double>();
    EXPECT_DOUBLE_EQ(algorithm, one.at("bytes").get<double>() / seconds);
    // On two ranks 2 (n - 1) / n = 1, and (n - 1) / n = 1/2.
    const std::set<std::string> whole = {"all_reduce", "broadcast", "send_receive"};
    const double factor = whole.contains(one.at("operation").get<std::string>()) ? 1 : 0.5;
    EXPECT_DOUBLE_EQ(one.at("bus_bandwidth").get<double>(), factor * algorithm);
  }
}

TEST(BenchComm, WorldOfOneNeedsNoOtherProcess) {
  const Result result =
      daso({"bench", "comm", "--backend", "self", "--sizes", "1K", "--dtype", "int8"});
  EXPECT_EQ(result.code, 0) << result.error;
  EXPECT_TRUE(contains(result.output, "1 ranks on 1 nodes, backend self, int8")) << result.output;
  EXPECT_FALSE(contains(result.output, "WRONG"));
}

// The launcher's children, in the order in which it started them. The ranks come last.
std::vector<pid_t> children_of(pid_t parent) {
  const std::string number = std::to_string(parent);
  std::ifstream file("/proc/" + number + "/task/" + number + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

TEST(BenchComm, KilledRankEndsAllWithinASecond) {
  Process job = start(
      {"bench", "comm", "--operations", "all_reduce", "--sizes", "4M", "--iterations", "1000000"});
  ASSERT_TRUE(holds_within(kLimit, [&] { return contains(job.standard_output(), "operation"); }));
  const std::vector<pid_t> ranks = children_of(job.pid());
  ASSERT_GE(ranks.size(), 4U);
  const auto killed = Clock::now();
  ASSERT_EQ(::kill(ranks.back(), SIGKILL), 0);
  const Ending ending = job.wait(kLimit);
  EXPECT_EQ(ending.code, 3);
  EXPECT_LT(Seconds(ending.when - killed), Seconds(1));
  EXPECT_TRUE(contains(job.standard_error(), "rank 3 (node1.1) was ended by signal 9"))
      << job.standard_error();
  for (const pid_t rank : ranks) EXPECT_TRUE(is_gone(rank, Seconds(1)));
}

TEST(BenchOverlap, SleepingCallerIsNotBlocked) {
  const Result result = daso({"bench", "overlap", "--nodes", "2", "--ranks-per-node", "1",
                              "--caller", "sleeps", "--iterations", "7", "--json"});
  ASSERT_EQ(result.code, 0) << result.error;
  const json report = json::parse(result.output);
  EXPECT_TRUE(report.at("verified").get<bool>());
  EXPECT_GE(report.at("overlap").get<double>(), 0.95);
  EXPECT_LE(report.at("overlap").get<double>(), 1);
  EXPECT_EQ(report.at("callers").at(0).at("overlap"), report.at("overlap"));
}

// A folder of images is made, and its loader measured beside the libraries.
TEST(BenchLoader, MeasuresAFolderOfImages) {
  const ScratchFolder scratch;
  const std::string folder = (scratch.path() / "images").string();
  const Result made = daso(
      {"make", "images", folder, "--classes", "2", "--train", "12", "--val", "2", "--size", "40"});
  ASSERT_EQ(made.code, 0) << made.error;
  EXPECT_TRUE(contains(made.output, "24 and 4 images of 2 classes")) << made.output;
  EXPECT_TRUE(std::filesystem::exists(folder + "/train/class001/00000.jpg"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/train/class001/00003.png"));
  const Result again = daso({"make", "images", folder});
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(contains(again.error, "is there already")) << again.error;

  const Result result = daso({"bench", "loader", "--data", "images:" + folder + ",size=32",
                              "--loader-threads", "2", "--seconds", "0.1", "--json"});
  ASSERT_EQ(result.code, 0) << result.error;
  const json report = json::parse(result.output);
  EXPECT_EQ(report.at("images"), 24);
  EXPECT_EQ(report.at("results").at(0).at("what"), "libraries");
  EXPECT_EQ(report.at("results").at(1).at("what"), "loader");
  for (const json& one : report.at("results")) {
    EXPECT_GT(one.at("images_per_second").get<double>(), 0);
    EXPECT_GT(one.at("megabytes_per_second").get<double>(), 0);
  }
  EXPECT_GT(report.at("ratio").get<double>(), 0);
  const Result other = daso({"bench", "loader", "--data", "synthetic"});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(contains(other.error, "is for --data images:DIR")) << other.error;
}

}  // namespace
}  // namespace daso::test
