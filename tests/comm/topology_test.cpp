// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/topology.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace daso {
namespace {

using Names = std::vector<std::string>;

using Ranks = std::vector<int>;

TEST(Topology, NumbersNodesByTheirLowestRank) {
  const Topology topology = Topology::from_names({"b", "a", "b", "c", "a", "b"});
  EXPECT_EQ(topology.ranks(), 6);
  EXPECT_EQ(topology.nodes(), 3);
  EXPECT_EQ(topology.name_of(0), "b");
  EXPECT_EQ(topology.name_of(2), "c");
  EXPECT_EQ(topology.ranks_of(0), (Ranks{0, 2, 5}));
  EXPECT_EQ(topology.ranks_of(1), (Ranks{1, 4}));
  EXPECT_EQ(topology.ranks_of(2), (Ranks{3}));
}

TEST(Topology, KnowsNodeAndLocalRankOfEveryRank) {
  const Topology topology = Topology::from_names({"b", "a", "b", "c", "a", "b"});
  const Ranks nodes = {0, 1, 0, 2, 1, 0};
  const Ranks local_ranks = {0, 0, 1, 0, 1, 2};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(topology.node_of(rank), nodes[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(topology.local_rank_of(rank), local_ranks[static_cast<std::size_t>(rank)]);
  }
  EXPECT_EQ(topology.smallest_node(), 1);
  EXPECT_EQ(topology.largest_node(), 3);
}

TEST(Topology, WeighsNodesByTheirRanks) {
  const Topology topology = Topology::from_names({"x", "x", "x", "y", "z", "z"});
  EXPECT_EQ(topology.weights(), (std::vector<float>{0.5F, 1.0F / 6.0F, 1.0F / 3.0F}));
}

TEST(Topology, OfOneRankIsOneNode) {
  const Topology topology = Topology::from_names({""});
  EXPECT_EQ(topology.nodes(), 1);
  EXPECT_EQ(topology.weights(), std::vector<float>{1.0F});
}

TEST(Topology, IsEqualByNamesAndPlaces) {
  EXPECT_EQ(Topology::from_names({"a", "b"}), Topology::from_names({"a", "b"}));
  EXPECT_NE(Topology::from_names({"a", "b"}), Topology::from_names({"a", "c"}));
  EXPECT_NE(Topology::from_names({"a", "b", "a"}), Topology::from_names({"a", "b", "b"}));
}

TEST(NodesOfMachines, AreTheHostsWhereTheirNamesDiffer) {
  EXPECT_EQ(nodes_of_machines({"a", "b", "a"}, {"1", "2", "1"}), (Names{"a", "b", "a"}));
}

TEST(NodesOfMachines, TellMachinesWithOneNameApart) {
  EXPECT_EQ(nodes_of_machines({"a", "a", "a", "a"}, {"1", "2", "1", "3"}),
            (Names{"a", "a-2", "a", "a-3"}));
  // Another machine has the name already.
  EXPECT_EQ(nodes_of_machines({"a", "a", "a-2"}, {"1", "2", "3"}), (Names{"a", "a-3", "a-2"}));
}

TEST(Topology, RefusesRanksAndNodesThatItDoesNotHave) {
  const Topology topology = Topology::from_names({"a", "b"});
  EXPECT_THROW(topology.node_of(2), std::logic_error);
  EXPECT_THROW(topology.local_rank_of(-1), std::logic_error);
  EXPECT_THROW(topology.ranks_of(2), std::logic_error);
  EXPECT_THROW(Topology::from_names({}), std::logic_error);
}

}  // namespace
}  // namespace daso
