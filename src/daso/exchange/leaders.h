// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "daso/comm/node_link.h"
#include "daso/comm/peers.h"
#include "daso/policy/exchange_options.h"

namespace daso {

// Who speaks in an exchange, as one rank sees it.
struct Turn {
  Slices slices;             // how the model is cut within this rank's node
  std::optional<int> slice;  // the piece this rank speaks for; none: it only listens
  Peers peers;               // those who speak for the same piece on the other nodes
};

// The turns of a run (algorithm.md 6). Sharded: in every exchange the same, local rank l speaks for
// slice l. Rotating: one rank speaks for the whole model, in each exchange the next.
class Leaders {
 public:
  // Makes all groups; all ranks must do so together. The name stands in error messages.
  Leaders(World& world, ExchangeKind kind, const std::string& name);

  int slices() const { return turns_.front().slices.slices; }
  std::size_t turns() const { return turns_.size(); }
  std::size_t turn_of(std::int64_t exchange) const;
  const Turn& turn(std::size_t number) const { return turns_[number]; }

 private:
  std::vector<Turn> turns_;
};

}  // namespace daso
