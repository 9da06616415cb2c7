// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <optional>
#include <vector>

#include "daso/comm/communicator.h"
#include "daso/comm/spread.h"

namespace daso {

// What one rank of a group counts in a mean.
struct Share {
  int rank = 0;  // in the group
  float weight = 0;
};

// The weighted mean over the ranks of a group, with the same bits on all of them, on every backend,
// and however the tensor is cut:
//   m = w_0 x_0 + w_1 x_1 + ... in fp32, each product and each sum rounded by itself, added in the
//   order of the shares by the rank that owns the segment.
// An all_reduce gives no such promise: its order depends on the backend and on the element's place.
//
// Three steps (all_to_all, add, spread), of which the middle one is ours. One call does all and
// blocks; or the steps are called one by one, and several means are in flight, each in an
// OrderedMean of its own. Buffers are kept and grow to the largest tensor.
class OrderedMean {
 public:
  // One share per rank of the group. The group is borrowed; no other thread may use it meanwhile.
  OrderedMean(Communicator& group, std::vector<Share> shares);

  // Replaces `tensor` (float32, cut along its first dimension) by the mean. With `residual`, which
  // has the rows of this rank's segment, the owner adds it to the sum and sets it to 0. Throws as
  // Pending::wait does.
  void operator()(const at::Tensor& tensor, Seconds limit, const at::Tensor& residual = {});

  // The same in steps; the tensor belongs to the mean until the last one. Only `turn` and `finish`
  // block.
  void start(const at::Tensor& tensor);
  void turn(Seconds limit, const at::Tensor& residual = {});
  void finish(Seconds limit);

  // What one call sends to other ranks.
  std::int64_t bytes_sent(const at::Tensor& tensor) const;

 private:
  at::Tensor room(at::Tensor& kept, std::int64_t rows, const at::Tensor& like);

  Communicator& group_;
  const std::vector<Share> shares_;
  Spread spread_;
  at::Tensor tensor_;               // in flight
  at::Tensor whole_;                // the same with as many rows as divide evenly
  std::optional<Pending> pending_;  // the operation in flight
  at::Tensor padded_;               // room for whole_
  at::Tensor received_;             // own segment of every rank
  at::Tensor sum_;                  // own segment
};

}  // namespace daso
