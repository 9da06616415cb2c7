// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/comm/owner_reduce.h"

namespace daso {

// What one rank of a group counts in a mean.
struct Share {
  int rank = 0;  // in the group
  float weight = 0;
};

// What the owner of a segment does for an OrderedMean, a rule of OwnerReduce in fp32. The rows of
// `residual`, of which there may be fewer than of the segment or none, are added to the sum and set
// to 0.
void mean_in_order(const std::vector<Share>& shares, const at::Tensor& received,
                   const at::Tensor& mean, const at::Tensor& residual = {});

// The weighted mean over the ranks of a group, with the same bits on all of them, on every backend,
// and however the tensor is cut:
//   m = w_0 x_0 + w_1 x_1 + ... in fp32, each product and each sum rounded by itself, added in the
//   order of the shares by the rank that owns the segment.
// An all_reduce gives no such promise: its order depends on the backend and on the element's place.
class OrderedMean {
 public:
  // One share per rank of the group. The group is borrowed; no other thread may use it meanwhile.
  OrderedMean(Communicator& group, std::vector<Share> shares);

  // Replaces `tensor` (float32, contiguous, cut along its first dimension) by the mean. `residual`,
  // if there is one, has the rows of this rank's segment. Throws as Pending::wait does.
  void operator()(const at::Tensor& tensor, Seconds limit, const at::Tensor& residual = {});

 private:
  const std::vector<Share> shares_;
  OwnerReduce reduce_;
};

}  // namespace daso
