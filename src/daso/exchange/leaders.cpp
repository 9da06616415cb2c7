// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/leaders.h"

#include "daso/policy/rotation.h"

namespace daso {
namespace {

std::vector<int> ranks_per_node(const Topology& topology) {
  std::vector<int> ranks;
  for (int node = 0; node < topology.nodes(); ++node) {
    ranks.push_back(static_cast<int>(topology.ranks_of(node).size()));
  }
  return ranks;
}

Turn sharded_turn(World& world, const std::string& name) {
  const Topology& topology = world.topology();
  Turn turn{.slices = {.slices = topology.smallest_node()}};
  if (world.local_rank() >= turn.slices.slices) return turn;
  turn.slice = world.local_rank();
  turn.peers = peers_of(
      world, std::vector<int>(static_cast<std::size_t>(topology.nodes()), world.local_rank()),
      name);
  return turn;
}

Turn rotating_turn(World& world, const std::string& name, int number) {
  const std::vector<int> leaders = leaders_of(number, ranks_per_node(world.topology()));
  const int own = leaders[static_cast<std::size_t>(world.node())];
  Turn turn{.slices = {.slices = 1, .first = own}};
  if (world.local_rank() != own) return turn;
  turn.slice = 0;
  turn.peers = peers_of(world, leaders, name);
  return turn;
}

}  // namespace

Leaders::Leaders(World& world, ExchangeKind kind, const std::string& name) {
  if (kind == ExchangeKind::kSharded) {
    turns_.push_back(sharded_turn(world, name));
    return;
  }
  // In ascending order on all ranks: a rank that is in several groups makes nobody wait in a
  // circle.
  for (int number = 0; number < world.topology().largest_node(); ++number) {
    turns_.push_back(rotating_turn(world, name, number));
  }
}

std::size_t Leaders::turn_of(std::int64_t exchange) const {
  return static_cast<std::size_t>(exchange) % turns_.size();
}

}  // namespace daso
