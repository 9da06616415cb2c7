// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/topology.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

template <typename T>
const T& entry(const std::vector<T>& list, int index) {
  DASO_ASSERT(index >= 0 && index < static_cast<int>(list.size()));
  return list[static_cast<std::size_t>(index)];
}

bool fewer_ranks(const std::vector<int>& a, const std::vector<int>& b) {
  return a.size() < b.size();
}

}  // namespace

Topology Topology::from_names(const std::vector<std::string>& names) {
  DASO_ASSERT(!names.empty());
  Topology topology;
  for (int rank = 0; rank < static_cast<int>(names.size()); ++rank) {
    const std::string& name = names[static_cast<std::size_t>(rank)];
    const auto known = std::find(topology.names_.begin(), topology.names_.end(), name);
    const auto node = static_cast<std::size_t>(known - topology.names_.begin());
    if (known == topology.names_.end()) {
      topology.names_.push_back(name);
      topology.members_.emplace_back();
    }
    topology.node_of_.push_back(static_cast<int>(node));
    topology.local_rank_of_.push_back(static_cast<int>(topology.members_[node].size()));
    topology.members_[node].push_back(rank);
  }
  return topology;
}

int Topology::node_of(int rank) const { return entry(node_of_, rank); }

int Topology::local_rank_of(int rank) const { return entry(local_rank_of_, rank); }

const std::string& Topology::name_of(int node) const { return entry(names_, node); }

const std::vector<int>& Topology::ranks_of(int node) const { return entry(members_, node); }

int Topology::smallest_node() const {
  return static_cast<int>(std::min_element(members_.begin(), members_.end(), fewer_ranks)->size());
}

int Topology::largest_node() const {
  return static_cast<int>(std::max_element(members_.begin(), members_.end(), fewer_ranks)->size());
}

std::vector<float> Topology::weights() const {
  std::vector<float> weights;
  weights.reserve(members_.size());
  for (const std::vector<int>& members : members_) {
    // Both counts are exact in fp32, so the division is the one rounding.
    weights.push_back(static_cast<float>(members.size()) / static_cast<float>(node_of_.size()));
  }
  return weights;
}

std::vector<std::string> nodes_of_machines(const std::vector<std::string>& hosts,
                                           const std::vector<std::string>& identities) {
  DASO_ASSERT(hosts.size() == identities.size());
  std::map<std::pair<std::string, std::string>, std::string> names;  // by host and identity
  std::set<std::string> taken;
  std::vector<std::string> nodes;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const std::string& host = hosts[rank];
    std::string& name = names[{host, identities[rank]}];
    if (name.empty()) {
      name = host;
      const auto is_free = [&] {
        // A made-up name must not be that of another machine.
        return !taken.contains(name) && (name == host || std::ranges::count(hosts, name) == 0);
      };
      for (int number = 2; !is_free(); ++number) name = fmt::format("{}-{}", host, number);
      taken.insert(name);
    }
    nodes.push_back(name);
  }
  return nodes;
}

}  // namespace daso
