// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <vector>

#include "daso/comm/communicator.h"

namespace daso {

// The weighted mean over the ranks of a group, with the same bits on all of them, on every backend,
// and however the tensor is cut:
//   m = w_0 x_0 + w_1 x_1 + ... in fp32, each product and each sum rounded by itself, added in rank
//   order by the rank that owns the segment; for bfloat16 and float16 the result is then rounded.
// An all_reduce gives no such promise: its order depends on the backend and on the element's place.
//
// Three steps (all_to_all, add, all_gather), of which the middle one is ours: so it blocks, and one
// who wants to overlap it calls it on a thread that may. Buffers are kept between calls.
class OrderedMean {
 public:
  // One weight per rank of the group. The group is borrowed; no other thread may use it meanwhile.
  OrderedMean(Communicator& group, std::vector<float> weights);

  // Replaces `tensor` (float32, bfloat16 or float16) by the mean. Throws as Pending::wait does.
  void operator()(const at::Tensor& tensor, Seconds limit);

 private:
  void make_room(const at::Tensor& tensor);

  Communicator& group_;
  const std::vector<float> weights_;
  at::Tensor received_;  // [ranks, own segment]
  at::Tensor sum_;       // own segment in fp32
  at::Tensor segment_;   // own segment in the tensor's type; for float32 the same as sum_
};

// sum[i] = weights[0] * terms[0][i] + weights[1] * terms[1][i] + ..., as above. `terms` is
// [ranks, n] of float32, bfloat16 or float16, `sum` is [n] of float32.
void add_in_order(const at::Tensor& terms, const std::vector<float>& weights, at::Tensor& sum);

}  // namespace daso
