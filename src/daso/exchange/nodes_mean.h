// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "daso/comm/world.h"
#include "daso/exchange/leaders.h"

namespace daso {

// The weighted mean over the nodes of a flat tensor that the ranks of a node hold in common, in
// fp32 and blocking: what agreements and `local` use. Bits do not depend on who speaks.
class NodesMean {
 public:
  // Both are borrowed.
  NodesMean(World& world, const Leaders& leaders);

  // Replaces `tensor`, whose size is a multiple of kFlatBlock, by its mean. `residuals` are what
  // the owner of a segment adds to its mean and sets to 0: of each piece the rows that this rank
  // owns, or nothing at all. Throws PeerError.
  void operator()(const at::Tensor& tensor, std::int64_t exchange,
                  const std::vector<at::Tensor>& residuals = {});

  std::int64_t bytes_between_nodes() const { return bytes_between_nodes_; }  // sent by this rank

 private:
  void mean_of(const at::Tensor& slice, std::size_t turn, const std::vector<at::Tensor>& residuals);

  World& world_;
  const Leaders& leaders_;
  NodeLink& node_;
  // By turn, then by piece; none where this rank only listens.
  std::vector<std::vector<std::unique_ptr<OrderedMean>>> means_;
  std::int64_t bytes_between_nodes_ = 0;
};

}  // namespace daso
