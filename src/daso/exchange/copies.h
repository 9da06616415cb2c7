// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "daso/comm/world.h"
#include "daso/tensor/flat_model.h"

// Copies of a model that should be equal, and are compared by digests: those of the parameters on
// the ranks of a node, and those of the anchor on all nodes, in every exchange; those of means in
// the next agreement; and those of the parameters where all ranks average their gradients
// (equal_copies.h). Where they differ, the error names the first tensor that does.
//
// In a world for a view a node whose copy is damaged has others that hold it whole, if most of at
// least three copies are alike: what is thrown is a DamagedError on its ranks and a PeerError on
// the others, which go on without it until it is back. Else, and in a world for good, it is an
// Error.
namespace daso {

// Collective over the node: throws if the ranks hold different parameters, of which `own` is
// this rank's digest. `parameters` are those of the digest, on the host, with the layout of the
// model; undefined on all ranks where they are no longer there: then no tensor is named.
void check_equal_in_node(const World& world, NodeLink& node, const FlatModel& model,
                         std::int64_t own, const at::Tensor& parameters, std::int64_t exchange);

// A part of the layout, from element `begin` on, in memory of the host.
struct FlatPart {
  std::span<const float> values;
  std::int64_t begin = 0;
};

// Collective over ranks whose digests of their parts have turned out to differ. `what` says in
// whose copies of what, as in "exchange 5: the nodes' copies of the anchor".
[[noreturn]] void throw_unequal(const World& world, Communicator& ranks, const FlatModel& model,
                                const FlatPart& own, const std::string& what);

// The same where nobody holds any longer what differs: `digests` has one of each rank, and was
// gathered before.
[[noreturn]] void throw_unequal(const World& world, const Communicator& ranks,
                                const at::Tensor& digests, const std::string& what);

}  // namespace daso
