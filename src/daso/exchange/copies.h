// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/comm/world.h"
#include "daso/tensor/flat_model.h"

// Copies of a model that should be equal, and are compared by digests in every exchange: those of
// the parameters on the ranks of a node, and those of the anchor on all nodes. Where they differ,
// the error names the first tensor that does.
namespace daso {

// Collective over the node: throws Error if the ranks hold different parameters, of which `own` is
// this rank's digest. `parameters` are those of the digest, on the host, with the layout of the
// model; undefined on all ranks where they are no longer there: then no tensor is named.
void check_equal_in_node(const World& world, NodeLink& node, const FlatModel& model,
                         std::int64_t own, const at::Tensor& parameters, std::int64_t exchange);

// A part of the layout, from element `begin` on, in memory of the host.
struct FlatPart {
  std::span<const float> values;
  std::int64_t begin = 0;
};

// Collective over the peers, once digests of their parts have turned out to differ.
[[noreturn]] void throw_unequal_anchors(const World& world, Communicator& peers,
                                        const FlatModel& model, const FlatPart& own,
                                        std::int64_t exchange);

}  // namespace daso
