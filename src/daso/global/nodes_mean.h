// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "daso/comm/world.h"
#include "daso/global/speakers.h"

namespace daso {

// The weighted mean over the nodes of a flat tensor that the ranks of a node hold in common, in
// fp32 and blocking: what agreements and `local` use. Bits do not depend on who speaks.
class NodesMean {
 public:
  // Both are borrowed.
  NodesMean(World& world, const Speakers& speakers);

  // Replaces `tensor`, whose size is a multiple of kFlatBlock, by its mean. `rest` is what the
  // owner of a segment adds to its mean and sets to 0: the rows of the segment that this rank owns,
  // or undefined. Throws PeerError.
  void operator()(const at::Tensor& tensor, std::int64_t exchange, const at::Tensor& rest = {});

  std::int64_t bytes_between_nodes() const { return bytes_between_nodes_; }  // sent by this rank

 private:
  World& world_;
  const Speakers& speakers_;
  NodeLink& node_;
  std::vector<std::unique_ptr<OrderedMean>> means_;  // by turn; null: this rank only listens
  std::int64_t bytes_between_nodes_ = 0;
};

}  // namespace daso
