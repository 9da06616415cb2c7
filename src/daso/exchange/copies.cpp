// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/copies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <set>

#include "daso/base/damaged.h"
#include "daso/base/error.h"
#include "daso/kernels/digest.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

// The digest of each tensor's part in `part`, and behind them that of all of it: int64.
at::Tensor digests_by_tensor(const std::vector<FlatSpan>& spans, const FlatPart& part) {
  const std::int64_t end = part.begin + static_cast<std::int64_t>(part.values.size());
  const auto tensors = static_cast<std::int64_t>(spans.size());
  at::Tensor digests = at::zeros({tensors + 1}, at::kLong);
  auto* digest = digests.mutable_data_ptr<std::int64_t>();
  for (const FlatSpan& span : spans) {
    const std::int64_t from = std::max(span.offset, part.begin);
    const std::int64_t to = std::min(span.offset + span.elements, end);
    if (from < to) {
      *digest = std::bit_cast<std::int64_t>(digest_of(part.values.subspan(
          static_cast<std::size_t>(from - part.begin), static_cast<std::size_t>(to - from))));
    }
    ++digest;
  }
  *digest = std::bit_cast<std::int64_t>(digest_of(part.values));
  return digests;
}

bool same(const at::Tensor& rows, std::int64_t one, std::int64_t other) {
  return at::equal(rows[one], rows[other]);
}

// Which of several copies are not as most of them are.
struct Minority {
  bool known = false;  // most are alike; else anybody may be right
  std::int64_t good = 0;
  std::vector<std::int64_t> bad;
};

// `rows` has a row of each copy.
Minority minority_of(const at::Tensor& rows) {
  const std::int64_t copies = rows.size(0);
  for (std::int64_t good = 0; good < copies; ++good) {
    Minority found{.good = good};
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      if (!same(rows, good, copy)) found.bad.push_back(copy);
    }
    found.known = copies >= 3 && 2 * static_cast<std::int64_t>(found.bad.size()) < copies;
    if (found.known) return found;
  }
  Minority unknown;
  for (std::int64_t copy = 1; copy < copies; ++copy) {
    if (!same(rows, 0, copy)) unknown.bad.push_back(copy);
  }
  return unknown;
}

// The first tensor that differs, of rows with a digest of each.
std::string first_difference(const std::vector<FlatSpan>& spans, const at::Tensor& rows,
                             std::int64_t one, std::int64_t other) {
  const auto digests = rows.accessor<std::int64_t, 2>();
  for (std::size_t tensor = 0; tensor < spans.size(); ++tensor) {
    const auto column = static_cast<std::int64_t>(tensor);
    if (digests[one][column] != digests[other][column]) return spans[tensor].name;
  }
  return "the padding";
}

// Of a copy: its node, and where nodes have several its rank as well.
std::string name_of(const World& world, const Communicator& ranks, std::int64_t copy) {
  const Topology& topology = world.topology();
  std::set<int> nodes;
  for (const int rank : ranks.world_ranks()) nodes.insert(topology.node_of(rank));
  const int rank = ranks.world_ranks()[static_cast<std::size_t>(copy)];
  const std::string node = "node " + topology.name_of(topology.node_of(rank));
  const bool one_each = static_cast<int>(nodes.size()) == ranks.size();
  return one_each ? node : fmt::format("rank {} ({})", rank, node);
}

// `spans` is empty where rows have no digest of each tensor.
[[noreturn]] void throw_minority(const World& world, const Communicator& ranks,
                                 const at::Tensor& rows, const std::vector<FlatSpan>& spans,
                                 const std::string& what) {
  const Minority found = minority_of(rows);
  if (found.bad.empty()) throw Error(what + " were not the same a moment ago");
  const std::string tensor =
      spans.empty() ? "that"
                    : fmt::format("'{}'", first_difference(spans, rows, found.good, found.bad[0]));
  const std::string others =
      found.known ? "the others" : "that on " + name_of(world, ranks, found.good);
  const std::string text = fmt::format("{} are not the same: {} on {} differs from {}", what,
                                       tensor, name_of(world, ranks, found.bad[0]), others);
  if (!world.view() || !found.known) throw Error(text);
  const auto is_here = [&](std::int64_t copy) {
    const int rank = ranks.world_ranks()[static_cast<std::size_t>(copy)];
    return world.topology().node_of(rank) == world.node();
  };
  if (std::ranges::any_of(found.bad, is_here)) throw DamagedError(text);
  throw PeerError(text);
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
  const std::string what = fmt::format(
      "exchange {}: the parameters of node {} are not the same on all its ranks, though they got "
      "the same gradients",
      exchange, world.topology().name_of(world.node()));
  std::string where;
  if (parameters.defined()) {
    const std::vector<FlatSpan>& spans = model.parameter_spans();
    const at::Tensor row = digests_by_tensor(spans, {.values = host_floats(parameters)});
    const at::Tensor rows = at::zeros({node.size(), row.size(0)}, at::kLong);
    rows[node.rank()].copy_(row);
    node.gather(rows, by_rank, world.limit());
    const Minority found = minority_of(rows);
    DASO_ASSERT(!found.bad.empty());
    const std::vector<int>& ranks = world.topology().ranks_of(world.node());
    where = fmt::format(": '{}' on rank {} differs from that on rank {}",
                        first_difference(spans, rows, found.good, found.bad.at(0)),
                        ranks[static_cast<std::size_t>(found.bad[0])],
                        ranks[static_cast<std::size_t>(found.good)]);
  }
  // Other nodes have nothing to do with it, and hold what they agreed on.
  if (world.view() && world.topology().nodes() > 1) throw DamagedError(what + where);
  throw Error(what + where);
}

void throw_unequal(const World& world, Communicator& ranks, const FlatModel& model,
                   const FlatPart& own, const std::string& what) {
  const std::vector<FlatSpan>& spans = model.parameter_spans();
  const at::Tensor digests = digests_by_tensor(spans, own).view({1, -1});
  const at::Tensor rows = at::zeros({ranks.size(), digests.size(1)}, at::kLong);
  ranks.all_gather(digests, rows).wait(world.limit());
  throw_minority(world, ranks, rows, spans, what);
}

void throw_unequal(const World& world, const Communicator& ranks, const at::Tensor& digests,
                   const std::string& what) {
  throw_minority(world, ranks, digests.view({ranks.size(), 1}), {}, what);
}

}  // namespace daso
