// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daso/comm/node_link.h"
#include "daso/comm/ordered_mean.h"
#include "daso/comm/world.h"
#include "daso/policy/exchange_options.h"

namespace daso {

// One rank of each node: those that lead the same slice of the model.
struct Peers {
  Communicator* group = nullptr;  // null: this rank is not one of them
  std::vector<Share> shares;      // in node order: the node's place in the group, and its weight
};

// What one rank does in an exchange.
struct Role {
  Slices slices;             // how the model is cut within this rank's node
  std::optional<int> slice;  // the one that this rank leads; none: it follows
  Peers peers;               // those who lead it on all nodes
};

// Who leads in which exchange of a run (algorithm.md 6). Sharded: in every exchange the same, local
// rank l leads slice l. Rotating: one rank leads the whole model, in each exchange the next.
class Leaders {
 public:
  // Makes all groups; all ranks must do so together. The name stands in error messages; leaders of
  // other names have groups of their own, whose operations do not mix with these.
  Leaders(World& world, ExchangeKind kind, std::string name);

  const std::string& name() const { return name_; }
  int slices() const { return roles_.front().slices.slices; }
  std::size_t roles() const { return roles_.size(); }
  std::size_t role_of(std::int64_t exchange) const;
  const Role& role(std::size_t number) const { return roles_[number]; }

 private:
  const std::string name_;
  std::vector<Role> roles_;
};

}  // namespace daso
