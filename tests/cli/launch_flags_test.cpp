// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/launch_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/flags.h"
#include "daso/base/error.h"

namespace daso::cli {
namespace {

constexpr Shape kTwoByTwo{.nodes = 2, .ranks_per_node = 2};

LaunchFlags parsed(std::vector<std::string> words) {
  LaunchFlags flags;
  CLI::App app;
  add_launch_flags(app, flags, kTwoByTwo);
  add_world_flags(app, flags);
  std::reverse(words.begin(), words.end());
  app.parse(std::move(words));
  return flags;
}

std::vector<int> ranks(std::vector<std::string> words) {
  return ranks_of_nodes(parsed(std::move(words)), kTwoByTwo);
}

std::string refusal(std::vector<std::string> words) {
  try {
    launch_options(parsed(std::move(words)), kTwoByTwo);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

Place place_of(Launcher launcher, int size) {
  Place place;
  place.size = size;
  place.launcher = launcher;
  place.fixed_rendezvous = launcher == Launcher::kTorchrun;
  place.rendezvous = Address{"a", 1};
  return place;
}

TEST(LaunchFlags, SizeOfTheWorldComesFromAnyForm) {
  using List = std::vector<int>;
  EXPECT_EQ(ranks({}), (List{2, 2}));
  EXPECT_EQ(ranks({"--nodes", "3"}), (List{2, 2, 2}));
  EXPECT_EQ(ranks({"--ranks-per-node", "4"}), (List{4, 4}));
  EXPECT_EQ(ranks({"--nodes", "1", "--ranks-per-node", "3"}), (List{3}));
  EXPECT_EQ(ranks({"--ranks-per-node", "3,1,2"}), (List{3, 1, 2}));
  EXPECT_EQ(ranks({"--nodes", "3", "--ranks-per-node", "3,1,2"}), (List{3, 1, 2}));
  EXPECT_EQ(ranks({"--node-of-rank", "0,0,0,1"}), (List{3, 1}));
  EXPECT_EQ(ranks({"--node-of-rank", "0,1,0"}), (List{2, 1}));
  EXPECT_EQ(ranks({"--backend", "self"}), (List{1}));
}

TEST(LaunchFlags, ContradictionsAreRefused) {
  EXPECT_EQ(refusal({"--nodes", "2", "--ranks-per-node", "2"}), "");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--nodes", "3", "--ranks-per-node", "2,1"},
           {"--node-of-rank", "0,0,1", "--nodes", "3"},
           {"--node-of-rank", "1,0"},
           {"--node-of-rank", "0,2"},
           {"--backend", "self", "--nodes", "2"},
           {"--backend", "self", "--node-of-rank", "0,0"},
           {"--node-of-rank", "0,1,0"},  // our launcher numbers ranks node by node
       }) {
    EXPECT_NE(refusal(words), "") << words[0] << " " << words[1];
  }
}

TEST(LaunchFlags, RendezvousNeedsAPort) {
  EXPECT_EQ(parsed({"--rendezvous", "host:29500"}).rendezvous, "host:29500");
  EXPECT_TRUE(refusal({"--rendezvous", "host"}).starts_with("--rendezvous: "));
}

TEST(LaunchFlags, ReachTheLauncher) {
  const LaunchOptions options =
      launch_options(parsed({"--ranks-per-node", "1,2", "--node-index", "1", "--rendezvous", "a:7",
                             "--interface", "eth0", "--job-token", "t", "--backend", "mpi",
                             "--timeout", "9", "--grace", "0.5", "--join-timeout", "300"}),
                     kTwoByTwo);
  EXPECT_EQ(options.ranks_per_node, (std::vector<int>{1, 2}));
  EXPECT_EQ(options.node_index, 1);
  EXPECT_EQ(options.rendezvous, "a:7");
  EXPECT_EQ(options.interface, "eth0");
  EXPECT_EQ(options.job_token, "t");
  EXPECT_EQ(options.backend, "mpi");
  EXPECT_EQ(options.limit, Seconds(9));
  EXPECT_EQ(options.grace, Seconds(0.5));
  EXPECT_EQ(options.join_limit, Seconds(300));
}

TEST(LaunchFlags, ClusterReachesTheLauncherAndNoOtherLaunchersRank) {
  const LaunchFlags flags = parsed({"--cluster", "c"});
  EXPECT_EQ(launch_options(flags, kTwoByTwo).cluster, "c");
  EXPECT_NO_THROW(world_options(flags, place_of(Launcher::kDaso, 4)));
  EXPECT_THROW(world_options(flags, place_of(Launcher::kTorchrun, 4)), ConfigError);
}

TEST(LaunchFlags, NodeIndexIsForTheLauncherAndNoOtherLaunchersRank) {
  const LaunchFlags flags = parsed({"--node-index", "1"});
  EXPECT_NO_THROW(world_options(flags, place_of(Launcher::kDaso, 4)));
  EXPECT_THROW(world_options(flags, place_of(Launcher::kMpirun, 4)), ConfigError);
}

TEST(LaunchFlags, ReachTheRanks) {
  const LaunchFlags flags = parsed({"--timeout", "9", "--check-collectives", "--interface", "lo",
                                    "--nodes", "2", "--join-timeout", "300"});
  const WorldOptions options = world_options(flags, place_of(Launcher::kDaso, 4));
  EXPECT_EQ(options.limit, Seconds(9));
  EXPECT_EQ(options.join_limit, Seconds(300));
  EXPECT_TRUE(options.check_collectives);
  EXPECT_EQ(options.interface, "lo");
  EXPECT_TRUE(options.node_of_rank.empty());  // our launcher names the nodes itself
}

TEST(LaunchFlags, CutTheWorldOfAnotherLauncherIntoNodes) {
  const LaunchFlags flags = parsed({"--ranks-per-node", "3,1"});
  const WorldOptions options = world_options(flags, place_of(Launcher::kTorchrun, 4));
  EXPECT_EQ(options.node_of_rank, (std::vector<int>{0, 0, 0, 1}));
  EXPECT_TRUE(world_options(parsed({}), place_of(Launcher::kTorchrun, 4)).node_of_rank.empty());
  EXPECT_THROW(world_options(flags, place_of(Launcher::kTorchrun, 8)), ConfigError);
}

TEST(LaunchFlags, RendezvousHoldsWhereTheLauncherNamesNone) {
  const LaunchFlags flags = parsed({"--rendezvous", "b:2"});
  const WorldOptions options = world_options(flags, place_of(Launcher::kMpirun, 4));
  EXPECT_EQ(options.place.rendezvous->text(), "b:2");
  EXPECT_EQ(options.place.store_at, StoreAt::kRankZero);
  EXPECT_EQ(world_options(flags, place_of(Launcher::kDaso, 4)).place.rendezvous->text(), "a:1");
  EXPECT_THROW(world_options(flags, place_of(Launcher::kTorchrun, 4)), ConfigError);
}

}  // namespace
}  // namespace daso::cli
