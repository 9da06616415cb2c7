// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/copies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "daso/base/error.h"
#include "daso/kernels/digest.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

// The digest of each tensor's part in `part`: [tensors], int64.
at::Tensor digests_by_tensor(const std::vector<FlatSpan>& spans, const FlatPart& part) {
  const std::int64_t end = part.begin + static_cast<std::int64_t>(part.values.size());
  at::Tensor digests = at::zeros({static_cast<std::int64_t>(spans.size())}, at::kLong);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::int64_t from = std::max(spans[i].offset, part.begin);
    const std::int64_t to = std::min(spans[i].offset + spans[i].elements, end);
    if (from >= to) continue;
    digests[static_cast<std::int64_t>(i)] =
        std::bit_cast<std::int64_t>(digest_of(part.values.subspan(
            static_cast<std::size_t>(from - part.begin), static_cast<std::size_t>(to - from))));
  }
  return digests;
}

struct CopyDifference {
  std::int64_t copy = 1;  // differs from the first
  std::string tensor = "the padding";
};

// `digests` is [copies, tensors], and the copies are known to differ.
CopyDifference first_difference(const std::vector<FlatSpan>& spans, const at::Tensor& digests) {
  const auto all = digests.accessor<std::int64_t, 2>();
  for (std::int64_t tensor = 0; tensor < digests.size(1); ++tensor) {
    for (std::int64_t copy = 1; copy < digests.size(0); ++copy) {
      if (all[copy][tensor] != all[0][tensor]) {
        return {copy, spans[static_cast<std::size_t>(tensor)].name};
      }
    }
  }
  return {};
}

}  // namespace

void check_equal_in_node(const World& world, NodeLink& node, const FlatModel& model,
                         std::int64_t own, const at::Tensor& parameters, std::int64_t exchange) {
  const Slices by_rank{.slices = node.size()};
  const at::Tensor digests = at::zeros({node.size()}, at::kLong);
  digests[node.rank()] = own;
  node.gather(digests, by_rank, world.limit());
  const auto each = digests.accessor<std::int64_t, 1>();
  bool equal = true;
  for (int rank = 1; rank < node.size(); ++rank) equal = equal && each[rank] == each[0];
  if (equal) return;
  if (!parameters.defined()) {
    throw Error(fmt::format(
        "exchange {}: the parameters of node {} are not the same on all its ranks, though they got "
        "the same gradients",
        exchange, world.topology().name_of(world.node())));
  }
  const std::vector<FlatSpan>& spans = model.parameter_spans();
  const at::Tensor by_tensor =
      at::zeros({node.size(), static_cast<std::int64_t>(spans.size())}, at::kLong);
  by_tensor[node.rank()].copy_(digests_by_tensor(spans, {.values = host_floats(parameters)}));
  node.gather(by_tensor, by_rank, world.limit());
  const CopyDifference difference = first_difference(spans, by_tensor);
  const std::vector<int>& ranks = world.topology().ranks_of(world.node());
  throw Error(fmt::format(
      "exchange {}: the parameters of node {} are not the same on all its ranks, though they got "
      "the same gradients: '{}' on rank {} differs from that on rank {}",
      exchange, world.topology().name_of(world.node()), difference.tensor,
      ranks[static_cast<std::size_t>(difference.copy)], ranks[0]));
}

void throw_unequal_anchors(const World& world, Communicator& peers, const FlatModel& model,
                           const FlatPart& own, std::int64_t exchange) {
  const std::vector<FlatSpan>& spans = model.parameter_spans();
  const at::Tensor by_tensor =
      at::zeros({peers.size(), static_cast<std::int64_t>(spans.size())}, at::kLong);
  peers.all_gather(digests_by_tensor(spans, own).view({1, -1}), by_tensor).wait(world.limit());
  const CopyDifference difference = first_difference(spans, by_tensor);
  const Topology& topology = world.topology();
  const auto node_of = [&](std::int64_t peer) {
    return topology.name_of(topology.node_of(peers.world_ranks()[static_cast<std::size_t>(peer)]));
  };
  throw Error(fmt::format(
      "exchange {}: the nodes' copies of the anchor are not the same: '{}' on node {} differs from "
      "that on node {}",
      exchange, difference.tensor, node_of(difference.copy), node_of(0)));
}

}  // namespace daso
