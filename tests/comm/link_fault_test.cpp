// SPDX-License-Identifier: Apache-2.0
// Real processes of one node that die or stop while they share memory. No socket breaks, and there
// is no launcher that could help: what the survivors know, they found out by themselves.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "daso/base/error.h"
#include "daso/comm/network.h"
#include "daso/comm/store.h"
#include "process.h"

namespace daso::test {
namespace {

constexpr Seconds kPatience{30};
constexpr int kRanks = 4;
constexpr int kVictim = 2;

std::set<std::string> names_of_shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("daso-")) names.insert(name);
  }
  return names;
}

class Job {
 public:
  explicit Job(int limit) : store_(Store::host(listen_on({"127.0.0.1", 0}))) {
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_.emplace_back(
          std::vector<std::string>{DASO_LINK_PROBE},
          std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                             {"LOCAL_RANK", std::to_string(rank)},
                                             {"WORLD_SIZE", std::to_string(kRanks)},
                                             {"MASTER_ADDR", store_.address().host},
                                             {"MASTER_PORT", std::to_string(store_.address().port)},
                                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                             {"DASO_NODE", "node0"},
                                             {"DASO_TEST_TIMEOUT", std::to_string(limit)},
                                             {"OMP_NUM_THREADS", "1"}});
    }
  }

  bool runs() const {
    return holds_within(kPatience, [this] {
      return std::all_of(ranks_.begin(), ranks_.end(),
                         [](const Process& rank) { return rank.standard_output() == "running\n"; });
    });
  }

  Process& victim() { return ranks_.at(kVictim); }

  // Every rank but the victim must end with 3 and name it and the operation; gives the seconds
  // until the last one had.
  double survivors_end(Clock::time_point start) {
    double longest = 0;
    for (int number = 0; number < kRanks; ++number) {
      if (number == kVictim) continue;
      Process& rank = ranks_.at(static_cast<std::size_t>(number));
      const Ending ending = rank.wait(kPatience);
      const std::string text = rank.standard_error();
      EXPECT_EQ(ending.code, kExitPeer) << "rank " << number << ": " << text;
      EXPECT_NE(text.find("rank 2 (node0 on host "), std::string::npos) << text;
      EXPECT_NE(text.find("in group 'node 0 link test'"), std::string::npos) << text;
      longest = std::max(longest, Seconds(ending.when - start).count());
    }
    return longest;
  }

 private:
  Store store_;
  std::vector<Process> ranks_;
};

TEST(LinkFaults, ADeathIsNamedByEverySurvivorWithinASecond) {
  double shortest = kPatience.count();  // of three, since the machine may be busy
  for (int i = 0; i < 3; ++i) {
    Job job(/*limit=*/20);
    ASSERT_TRUE(job.runs());
    job.victim().send(SIGKILL);
    const Ending death = job.victim().wait(kPatience);
    EXPECT_EQ(death.code, 128 + SIGKILL);
    const double seconds = job.survivors_end(death.when);
    EXPECT_LT(seconds, 3.0);
    shortest = std::min(shortest, seconds);
  }
  EXPECT_LT(shortest, 1.0);
}

TEST(LinkFaults, AStoppedRankIsNamedWhenTheLimitIsOver) {
  Job job(/*limit=*/2);
  ASSERT_TRUE(job.runs());
  const auto start = Clock::now();
  job.victim().send(SIGSTOP);
  const double seconds = job.survivors_end(start);
  EXPECT_GT(seconds, 1.9);
  EXPECT_LT(seconds, 4.0);
}

TEST(LinkFaults, NothingIsLeftInTheFileSystem) {
  const std::set<std::string> before = names_of_shared_memory();
  {
    Job job(/*limit=*/20);
    ASSERT_TRUE(job.runs());
    job.victim().send(SIGKILL);
    job.victim().wait(kPatience);
    job.survivors_end(Clock::now());
  }
  // Another job of this machine may be opening a link right now; that takes milliseconds.
  std::set<std::string> left;
  EXPECT_TRUE(holds_within(Seconds(10), [&] {
    left.clear();
    for (const std::string& name : names_of_shared_memory()) {
      if (!before.contains(name)) left.insert(name);
    }
    return left.empty();
  })) << *left.begin();
}

}  // namespace
}  // namespace daso::test
