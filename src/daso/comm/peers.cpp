// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/peers.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "daso/base/error.h"

namespace daso {

Peers peers_of(World& world, const std::vector<int>& leaders, const std::string& name) {
  const Topology& topology = world.topology();
  DASO_ASSERT(static_cast<int>(leaders.size()) == topology.nodes());
  std::vector<int> in_node_order;
  for (int node = 0; node < topology.nodes(); ++node) {
    const std::vector<int>& ranks = topology.ranks_of(node);
    in_node_order.push_back(
        ranks.at(static_cast<std::size_t>(leaders[static_cast<std::size_t>(node)])));
  }
  std::vector<int> ascending = in_node_order;
  std::sort(ascending.begin(), ascending.end());
  if (!std::binary_search(ascending.begin(), ascending.end(), world.rank())) return {};
  Peers peers;
  peers.group = &world.group(ascending, fmt::format("{} {}", name, fmt::join(ascending, "-")));
  const std::vector<float> weights = topology.weights();
  for (std::size_t node = 0; node < in_node_order.size(); ++node) {
    const auto place = std::lower_bound(ascending.begin(), ascending.end(), in_node_order[node]);
    peers.shares.push_back({static_cast<int>(place - ascending.begin()), weights[node]});
  }
  return peers;
}

}  // namespace daso
