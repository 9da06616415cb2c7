// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/leaders.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "daso/base/error.h"

namespace daso {
namespace {

std::vector<int> ranks_per_node(const Topology& topology) {
  std::vector<int> ranks;
  for (int node = 0; node < topology.nodes(); ++node) {
    ranks.push_back(static_cast<int>(topology.ranks_of(node).size()));
  }
  return ranks;
}

// `leaders` are local ranks, one per node, of which this rank is one.
Peers peers_of(World& world, const std::vector<int>& leaders, const std::string& name) {
  const Topology& topology = world.topology();
  std::vector<int> in_node_order;
  for (int node = 0; node < topology.nodes(); ++node) {
    const std::vector<int>& ranks = topology.ranks_of(node);
    in_node_order.push_back(
        ranks.at(static_cast<std::size_t>(leaders.at(static_cast<std::size_t>(node)))));
  }
  std::vector<int> ascending = in_node_order;
  std::sort(ascending.begin(), ascending.end());
  DASO_ASSERT(std::binary_search(ascending.begin(), ascending.end(), world.rank()));
  Peers peers;
  peers.group = &world.group(ascending, fmt::format("{} {}", name, fmt::join(ascending, "-")));
  const std::vector<float> weights = topology.weights();
  for (std::size_t node = 0; node < in_node_order.size(); ++node) {
    const auto place = std::lower_bound(ascending.begin(), ascending.end(), in_node_order[node]);
    peers.shares.push_back({static_cast<int>(place - ascending.begin()), weights[node]});
  }
  return peers;
}

Role sharded_role(World& world, const std::string& name) {
  const Topology& topology = world.topology();
  Role role{.slices = {.slices = topology.smallest_node()}};
  if (world.local_rank() >= role.slices.slices) return role;
  role.slice = world.local_rank();
  role.peers = peers_of(
      world, std::vector<int>(static_cast<std::size_t>(topology.nodes()), world.local_rank()),
      name);
  return role;
}

Role rotating_role(World& world, const std::string& name, int number) {
  const std::vector<int> leaders = leaders_of(number, ranks_per_node(world.topology()));
  const int own = leaders[static_cast<std::size_t>(world.node())];
  Role role{.slices = {.slices = 1, .first = own}};
  if (world.local_rank() != own) return role;
  role.slice = 0;
  role.peers = peers_of(world, leaders, name);
  return role;
}

}  // namespace

Leaders::Leaders(World& world, ExchangeKind kind, std::string name) : name_(std::move(name)) {
  if (kind == ExchangeKind::kSharded) {
    roles_.push_back(sharded_role(world, name_));
    return;
  }
  // In ascending order on all ranks: a rank that is in several groups makes nobody wait in a
  // circle.
  for (int number = 0; number < world.topology().largest_node(); ++number) {
    roles_.push_back(rotating_role(world, name_, number));
  }
}

std::size_t Leaders::role_of(std::int64_t exchange) const {
  return static_cast<std::size_t>(exchange) % roles_.size();
}

}  // namespace daso
