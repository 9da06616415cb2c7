// SPDX-License-Identifier: Apache-2.0
// Real processes that die, stop or misbehave, without a launcher that could help: the test only
// hosts the store, as torchrun's agent does. What the survivors know, they found out by themselves.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/network.h"
#include "daso/comm/store.h"
#include "process.h"

namespace daso::test {
namespace {

constexpr Seconds kPatience{30};
constexpr int kRounds = 40;

class Job {
 public:
  Job(int ranks, const std::string& faults, std::map<std::string, std::string> variables = {})
      : store_(Store::host(listen_on({"127.0.0.1", 0}))) {
    for (int rank = 0; rank < ranks; ++rank) {
      variables["RANK"] = std::to_string(rank);
      variables["LOCAL_RANK"] = std::to_string(rank % 2);
      variables["WORLD_SIZE"] = std::to_string(ranks);
      variables["MASTER_ADDR"] = store_.address().host;
      variables["MASTER_PORT"] = std::to_string(store_.address().port);
      variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
      variables["DASO_NODE"] = fmt::format("node{}", rank / 2);
      variables["OMP_NUM_THREADS"] = "1";
      std::vector<std::string> command = {DASO_FAULT_PROBE, std::to_string(kRounds)};
      for (const std::string& word : split(faults, ' ')) command.push_back(word);
      ranks_.emplace_back(command, variables);
    }
  }

  Process& rank(int number) { return ranks_.at(static_cast<std::size_t>(number)); }

  // Every rank but the lost ones must end with 3 and name the lost, within a second of each other.
  void expect_survivors_to_name(const std::vector<int>& lost, const std::string& how) {
    std::optional<Clock::time_point> first;
    std::optional<Clock::time_point> last;
    for (int number = 0; number < static_cast<int>(ranks_.size()); ++number) {
      if (std::find(lost.begin(), lost.end(), number) != lost.end()) continue;
      const Ending ending = rank(number).wait(kPatience);
      const std::string text = rank(number).standard_error();
      EXPECT_EQ(ending.code, kExitPeer) << "rank " << number << ": " << text;
      for (const int missing : lost) {
        EXPECT_NE(text.find(fmt::format("rank {} (node{} on host ", missing, missing / 2)),
                  std::string::npos)
            << "rank " << number << ": " << text;
      }
      EXPECT_NE(text.find(how), std::string::npos) << "rank " << number << ": " << text;
      EXPECT_NE(text.find("in group 'everyone'"), std::string::npos) << text;
      if (!first || ending.when < *first) first = ending.when;
      if (!last || ending.when > *last) last = ending.when;
    }
    EXPECT_LT(Seconds(*last - *first).count(), 1.0);
  }

 private:
  Store store_;
  std::vector<Process> ranks_;
};

class Deaths : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Deaths, AreNamedByEverySurvivor) {
  const auto [fault, moment] = GetParam();
  Job job(4, fmt::format("2 {} {}", moment, fault));
  const int signal = std::string(fault) == "kill" ? SIGKILL : SIGSEGV;
  const Ending death = job.rank(2).wait(kPatience);
  EXPECT_EQ(death.code, 128 + signal);
  job.expect_survivors_to_name({2}, "did not answer the roll call");
  EXPECT_LT(since(death.when).count(), 2.0);
}

INSTANTIATE_TEST_SUITE_P(Faults, Deaths,
                         testing::Combine(testing::Values("kill", "segv"),
                                          testing::Values("before", "during", "after")));

TEST(Faults, AStoppedRankIsNamedWhenTheLimitIsOver) {
  for (const char* moment : {"before", "during", "after"}) {
    SCOPED_TRACE(moment);
    Job job(4, fmt::format("1 {} stop", moment), {{"DASO_TEST_TIMEOUT", "2"}});
    job.expect_survivors_to_name({1}, "did not answer the roll call");
  }
}

TEST(Faults, AWholeNodeIsNamedRankByRank) {
  Job job(4, "2 during kill 3 during kill");
  job.expect_survivors_to_name({2, 3}, "did not answer the roll call");
}

TEST(Faults, ALateRankIsNamedThoughItAnswers) {
  Job job(3, "1 before linger", {{"DASO_TEST_TIMEOUT", "2"}});
  for (const int rank : {0, 2}) {
    EXPECT_EQ(job.rank(rank).wait(kPatience).code, kExitPeer);
    EXPECT_NE(job.rank(rank).standard_error().find("not there yet, though alive: rank 1"),
              std::string::npos)
        << job.rank(rank).standard_error();
  }
}

TEST(Faults, ARankThatThrowsSaysWhyAndTheOthersRepeatIt) {
  Job job(3, "1 before throw");
  EXPECT_EQ(job.rank(1).wait(kPatience).code, kExitBug);
  EXPECT_NE(job.rank(1).standard_error().find("rank 1: the probe was told to throw"),
            std::string::npos);
  job.expect_survivors_to_name({1}, "the probe was told to throw");
}

TEST(Faults, ARankThatLeavesEarlyIsNamed) {
  Job job(3, "1 before leave");
  EXPECT_EQ(job.rank(1).wait(kPatience).code, kExitOk);
  job.expect_survivors_to_name({1}, "did not answer the roll call");
}

TEST(Faults, AConfigErrorOfOneRankEndsItWithTwo) {
  Job job(3, "0 during config");
  EXPECT_EQ(job.rank(0).wait(kPatience).code, kExitConfig);
  job.expect_survivors_to_name({0}, "the probe was told to be wrong");
}

TEST(Faults, SurvivorsGoOnInTheNextGeneration) {
  Job job(4, "1 during kill", {{"DASO_TEST_REBUILD", "1"}});
  for (const int rank : {0, 2, 3}) {
    EXPECT_EQ(job.rank(rank).wait(kPatience).code, kExitOk) << job.rank(rank).standard_error();
  }
  EXPECT_EQ(job.rank(0).standard_output(), "done with 3 ranks\n");
}

// The same probe under our launcher, which hosts the store.
Process launch(const std::string& flags, const std::string& words) {
  std::vector<std::string> command = {DASO_PROGRAM, "run"};
  for (const std::string& word : split(flags, ' ')) command.push_back(word);
  command.insert(command.end(), {"--", DASO_FAULT_PROBE});
  for (const std::string& word : split(words, ' ')) command.push_back(word);
  return Process(command);
}

// The processes that run the probe as children of `launcher`.
std::vector<pid_t> ranks_of(pid_t launcher) {
  std::vector<pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_integer(entry.path().filename().string());
    if (!pid) continue;
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line == fmt::format("PPid:\t{}", launcher)) ranks.push_back(static_cast<pid_t>(*pid));
    }
  }
  std::erase_if(ranks, [](pid_t rank) {
    const auto program = fmt::format("/proc/{}/exe", rank);
    std::error_code gone;
    return std::filesystem::read_symlink(program, gone) != DASO_FAULT_PROBE;
  });
  return ranks;
}

TEST(Faults, TheLauncherNamesARankThatWasKilledInOneLine) {
  Process launcher = launch("--nodes 2 --ranks-per-node 2", "40 3 during kill");
  EXPECT_EQ(launcher.wait(kPatience).code, kExitPeer);
  EXPECT_EQ(
      launcher.standard_error(),
      "daso: rank 3 (node1.1) was ended by signal 9 (Killed); the job ends with exit code 3\n");
}

TEST(Faults, RanksDoNotOutliveALauncherThatIsKilled) {
  Process launcher = launch("--nodes 2 --ranks-per-node 2", "100000000");
  std::vector<pid_t> ranks;
  ASSERT_TRUE(holds_within(kPatience, [&] {
    ranks = ranks_of(launcher.pid());
    return ranks.size() == 4;
  }));
  launcher.send(SIGKILL);
  EXPECT_EQ(launcher.wait(kPatience).code, 128 + SIGKILL);
  for (const pid_t rank : ranks) EXPECT_TRUE(is_gone(rank, Seconds(10))) << rank;
}

TEST(Faults, SurvivorsGoOnUnderALauncherThatKeepsThem) {
  ::setenv("DASO_TEST_REBUILD", "1", 1);
  Process launcher = launch("--ranks-per-node 3 --keep-survivors", "40 0 during kill");
  ::unsetenv("DASO_TEST_REBUILD");
  EXPECT_EQ(launcher.wait(kPatience).code, kExitOk) << launcher.standard_error();
  EXPECT_NE(launcher.standard_error().find("done with 2 ranks"), std::string::npos);
}

TEST(SlowFaults, HundredRandomFaultsAndNoHang) {
  std::mt19937 random(20260711);
  const auto any = [&](const std::vector<std::string>& from) {
    return from[std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(random)];
  };
  for (int i = 0; i < 100; ++i) {
    const int ranks = std::uniform_int_distribution<int>(2, 4)(random);
    const int victim = std::uniform_int_distribution<int>(0, ranks - 1)(random);
    const std::string fault = fmt::format("{} {} {}", victim, any({"before", "during", "after"}),
                                          any({"kill", "kill", "segv", "throw", "stop", "linger"}));
    SCOPED_TRACE(fmt::format("fault {}: {} of {}", i, fault, ranks));
    Job job(ranks, fault, {{"DASO_TEST_TIMEOUT", "2"}});
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(job.rank(rank).wait(kPatience).code, kExitPeer) << job.rank(rank).standard_error();
    }
  }
}

}  // namespace
}  // namespace daso::test
