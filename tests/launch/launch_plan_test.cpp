// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/launch_plan.h"

#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/comm/place.h"
#include "daso/launch/mpirun.h"

namespace daso {
namespace {

LaunchOptions options(std::vector<int> ranks_per_node) {
  LaunchOptions made;
  made.ranks_per_node = std::move(ranks_per_node);
  made.command = {"program"};
  return made;
}

TEST(LaunchPlan, NumbersRanksNodeByNode) {
  const std::vector<RankSpot> expected = {{0, 0, 0}, {1, 0, 1}, {2, 1, 0}, {3, 2, 0}};
  EXPECT_EQ(own_spots(options({2, 1, 1})), expected);
  EXPECT_EQ(expected[1].text(), "rank 1 (node0.1)");
  EXPECT_EQ(expected[2].prefix(), "[1.0] ");
}

TEST(LaunchPlan, StartsOneNodesRanksWhereOthersStartTheRest) {
  LaunchOptions one = options({2, 3});
  one.node_index = 1;
  EXPECT_EQ(own_spots(one), (std::vector<RankSpot>{{2, 1, 0}, {3, 1, 1}, {4, 1, 2}}));
  EXPECT_EQ(all_spots(one).size(), 5U);
}

TEST(LaunchPlan, TellsARankWhatItReadsBackAsItsPlace) {
  const Environment inherited = {{"PATH", "/bin"}, {"RANK", "9"}, {"DASO_RENDEZVOUS", "h:1"}};
  const Environment told =
      rank_environment(inherited, options({2, 1}), {2, 1, 0}, {{"127.0.0.1", 4000}, "secret"});
  const Place place = *place_from(told);
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.size, 3);
  EXPECT_EQ(place.local_rank, 0);
  EXPECT_EQ(place.node, "node1");
  EXPECT_EQ(place.rendezvous->text(), "127.0.0.1:4000");
  EXPECT_EQ(place.store_at, StoreAt::kLauncher);
  EXPECT_EQ(place.job_token, "secret");
  EXPECT_EQ(place.launcher, Launcher::kDaso);
  EXPECT_EQ(told.at("PATH"), "/bin");
}

TEST(LaunchPlan, TellsRankZeroAloneOfATerminal) {
  LaunchOptions drawing = options({2});
  const Environment inherited = {{kColumnsVariable, "7"}};  // of an outer job
  const auto told = [&](int rank) {
    return find(rank_environment(inherited, drawing, {rank, 0, rank}, {{"127.0.0.1", 1}, ""}),
                kColumnsVariable);
  };
  EXPECT_FALSE(told(0));
  drawing.columns = 120;
  EXPECT_EQ(told(0), "120");
  EXPECT_FALSE(told(1));
}

TEST(LaunchPlan, LeavesTheUsersThreadSettingsAlone) {
  Environment environment = {{"OMP_NUM_THREADS", "4"}};
  add_thread_defaults(environment);
  EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(environment.at("OMP_WAIT_POLICY"), "passive");
}

TEST(LaunchPlan, RefusesWhatMakesNoSense) {
  EXPECT_NO_THROW(validate(options({1, 2})));
  EXPECT_THROW(validate(options({})), ConfigError);
  EXPECT_THROW(validate(options({1, 0})), ConfigError);
  LaunchOptions wrong = options({1});
  wrong.command.clear();
  EXPECT_THROW(validate(wrong), ConfigError);
  wrong = options({1, 1});
  wrong.node_index = 2;
  wrong.rendezvous = "h:80";
  EXPECT_THROW(validate(wrong), ConfigError);
  wrong.node_index = 1;
  EXPECT_NO_THROW(validate(wrong));
  wrong.rendezvous = "h:0";
  EXPECT_THROW(validate(wrong), ConfigError);
  wrong.rendezvous = "";
  EXPECT_THROW(validate(wrong), ConfigError);
  wrong = options({2});
  wrong.backend = "mpi";
  EXPECT_NO_THROW(validate(wrong));
  wrong.keep_survivors = true;
  EXPECT_THROW(validate(wrong), ConfigError);
}

TEST(LaunchPlan, AClustersRanksAreAllStartedHereAndMeetOnIt) {
  LaunchOptions good = options({1, 1});
  good.cluster = "c";
  EXPECT_NO_THROW(validate(good));
  for (auto spoil : std::vector<void (*)(LaunchOptions&)>{
           [](LaunchOptions& wrong) { wrong.node_index = 0, wrong.rendezvous = "a:1"; },
           [](LaunchOptions& wrong) { wrong.rendezvous = "a:1"; },
           [](LaunchOptions& wrong) { wrong.interface = "eth0"; },
           [](LaunchOptions& wrong) { wrong.backend = "mpi"; }}) {
    LaunchOptions wrong = good;
    spoil(wrong);
    EXPECT_THROW(validate(wrong), ConfigError);
  }
}

TEST(RankEnvironment, TellsThePortsThatRanksAreCalledAt) {
  const LaunchOptions options{.ranks_per_node = {2}, .ports = parse_ports("42000-42010")};
  const Environment outer = {{"DASO_PORTS", "1-2"}};
  const RankSpot spot = all_spots(options).front();
  const JobAddress job{.store = {"127.0.0.1", 4000}, .token = "secret"};
  EXPECT_EQ(place_from(rank_environment(outer, options, spot, job))->ports.text(), "42000-42010");
  EXPECT_TRUE(place_from(rank_environment(outer, {.ranks_per_node = {2}}, spot, job))->ports.any());
}

TEST(Mpirun, TellsARankWhatItReadsBackAsItsPlace) {
  Environment told = mpirun_environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}},
                                        {{"127.0.0.1", 4000}, "secret"});
  told.insert({{"OMPI_COMM_WORLD_RANK", "1"},
               {"OMPI_COMM_WORLD_SIZE", "3"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  const Place place = *place_from(told);
  EXPECT_EQ(place.size, 3);
  EXPECT_EQ(place.store_at, StoreAt::kLauncher);
  EXPECT_EQ(place.rendezvous->text(), "127.0.0.1:4000");
  EXPECT_EQ(place.job_token, "secret");
}

TEST(Mpirun, RanksTellHowTheyEnded) {
  RankNews news;
  news.feed("group 70\nend 2 0\ngro");
  EXPECT_FALSE(news.any_bad());
  news.feed("up 71\nend 1 137\nend 0 143\n");
  EXPECT_EQ(news.groups(), (std::vector<pid_t>{70, 71}));
  EXPECT_EQ(news.ends(),
            (std::vector<RankEnd>{
                {.rank = 2}, {.rank = 1, .signal = 9}, {.rank = 0, .signal = 15, .asked = true}}));
}

// As Open MPI 4.1 words it.
TEST(Mpirun, NamesTheRankThatFailed) {
  const std::string rule = std::string(74, '-') + "\n";
  const std::string phrase =
      rule +
      "Primary job  terminated normally, but 1 process returned\n"
      "a non-zero exit code. Per user-direction, the job has been aborted.\n" +
      rule;
  EXPECT_EQ(failed_rank(phrase + rule +
                            "mpirun noticed that process rank 12 with PID 0 on node vm exited on "
                            "signal 9 (Killed).\n" +
                            rule,
                        137),
            (RankEnd{.rank = 12, .signal = 9}));
  EXPECT_EQ(failed_rank("  Process name: [[30951,1],1]\n  Exit code:    5\n", 5),
            (RankEnd{.rank = 1, .code = 5}));
  EXPECT_EQ(failed_rank("MPI_ABORT was invoked on rank 4 in communicator MPI_COMM_WORLD\n", 7),
            (RankEnd{.rank = 4, .code = 7}));
  EXPECT_EQ(failed_rank(phrase, 3), std::nullopt);
  EXPECT_EQ(without_phrase("before\n" + phrase + "after\n"), "before\nafter\n");
  EXPECT_EQ(without_phrase("no phrase\n"), "no phrase\n");
}

}  // namespace
}  // namespace daso
