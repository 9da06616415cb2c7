// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "daso/comm/communicator.h"
#include "daso/comm/link/shared_link.h"
#include "daso/comm/node_link.h"
#include "daso/comm/store.h"

namespace daso {

struct LinkPlan {
  LinkName name;
  std::optional<Store> store;  // this link's part of the table; none on a node of one rank
  Guard guard;
  Guard making;  // while it is made
  Seconds limit;
  bool share_memory = true;              // or else the group at once
  std::function<Communicator&()> group;  // makes the group of these ranks, if it comes to that
  at::Device device = at::Device(at::kCPU);
  std::function<NodeLink&()> host;  // for another device: the link of these ranks on the CPU
  bool check_all = false;           // compare every operation with the peers', not only the first
};

// Opens the link of one rank; all ranks of the node do so, each with its plan. They come to the
// same kind: if one of them cannot share memory with the others, or is told not to, none does, and
// likewise with NCCL.
std::unique_ptr<NodeLink> open_link(const LinkPlan& plan);

}  // namespace daso
