// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include "daso/comm/communicator.h"

namespace daso {

// Gives every rank of a group the segments of all ranks. An all_gather does the same, but Gloo's
// allocates and copies the whole output on each call and passes segments on from rank to rank; here
// each goes straight to everybody, out of a buffer that is kept and grows to the largest segment.
class Spread {
 public:
  // The group is borrowed.
  explicit Spread(Communicator& group) : group_(group) {}

  // `segment` has the rows of one rank, the same number on all; `output` those of all ranks.
  Pending operator()(const at::Tensor& segment, const at::Tensor& output);

 private:
  Communicator& group_;
  at::Tensor copies_;  // one for each rank
};

}  // namespace daso
