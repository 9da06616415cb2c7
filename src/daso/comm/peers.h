// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/comm/ordered_mean.h"
#include "daso/comm/world.h"

namespace daso {

// One rank of each node: those who speak for their nodes to each other.
struct Peers {
  Communicator* group = nullptr;  // null: this rank is not one of them
  std::vector<Share> shares;      // in node order: the node's place in the group, and its weight
};

// `leaders` are local ranks, one per node. Makes the group on first use: all of them must then ask
// for it. The name stands in error messages.
Peers peers_of(World& world, const std::vector<int>& leaders, const std::string& name);

}  // namespace daso
