// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace daso {

// Which ranks stand on which node. A value: the same on every rank, known to no communicator.
class Topology {
 public:
  // names[r] is the node of rank r. Nodes are numbered in the order of their lowest rank, and the
  // ranks of a node in ascending order; a node's ranks need not be neighbours.
  static Topology from_names(const std::vector<std::string>& names);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(members_.size()); }
  int node_of(int rank) const;
  int local_rank_of(int rank) const;
  const std::string& name_of(int node) const;
  const std::vector<int>& ranks_of(int node) const;
  int smallest_node() const;  // the fewest ranks that a node has
  int largest_node() const;

  // One per node: ranks of the node / ranks of the world, rounded to fp32 once (algorithm.md 1).
  std::vector<float> weights() const;

  bool operator==(const Topology&) const = default;

 private:
  std::vector<std::string> names_;         // by node
  std::vector<std::vector<int>> members_;  // by node
  std::vector<int> node_of_;               // by rank
  std::vector<int> local_rank_of_;         // by rank
};

// The node of each rank that nobody has told its node: the name of its host. Machines that call
// themselves alike are told apart by their identities: the second one is name-2, and so on.
std::vector<std::string> nodes_of_machines(const std::vector<std::string>& hosts,
                                           const std::vector<std::string>& identities);

}  // namespace daso
