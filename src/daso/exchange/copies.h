// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/comm/world.h"
#include "daso/kernels/kernels.h"
#include "daso/tensor/flat_model.h"

// Copies of a model that should be equal, and are compared by digests in every exchange: those of
// the parameters on the ranks of a node, and those of the anchor on all nodes. Where they differ,
// the error names the first tensor that does.
namespace daso {

// Of all elements.
std::int64_t digest(std::span<const float> values, const Kernels& kernels);

// Collective over the node: throws Error if the ranks hold different `parameters`, which have the
// layout of the model.
void check_equal_in_node(const World& world, NodeLink& node, const FlatModel& model,
                         const at::Tensor& parameters, std::int64_t exchange);

// A part of the layout, from element `begin` on.
struct FlatPart {
  std::span<const float> values;
  std::int64_t begin = 0;
  const Kernels& kernels = cpu_kernels();  // of the device where the values lie
};

// Collective over the peers, once digests of their parts have turned out to differ.
[[noreturn]] void throw_unequal_anchors(const World& world, Communicator& peers,
                                        const FlatModel& model, const FlatPart& own,
                                        std::int64_t exchange);

}  // namespace daso
