// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <functional>
#include <vector>

#include "daso/comm/communicator.h"
#include "daso/comm/mpi/mpi_check.h"
#include "daso/comm/mpi/types.h"

namespace daso::mpi {

// One call of MPI, on tensors whose elements it can count. The functions hold the tensors that it
// reads and writes, and run on the progress thread.
struct Part {
  std::function<MPI_Request(MPI_Comm, const Types&)> start;
  std::function<void(const MPI_Status&)> after = {};  // once the data is here; may throw
};

Part all_reduce_part(const at::Tensor& tensor, Reduction how);
// `into` is root's alone; undefined on the others.
Part reduce_part(const at::Tensor& from, const at::Tensor& into, int root, Reduction how);
Part reduce_scatter_part(const at::Tensor& input, const at::Tensor& output, Reduction how);
// `in_place`: the input is already where it belongs in the output.
Part all_gather_part(const at::Tensor& input, const at::Tensor& output, bool in_place);
Part broadcast_part(const at::Tensor& tensor, int root);
// The segments, in elements, are what goes to and comes from each rank.
Part all_to_all_part(const at::Tensor& input, const std::vector<Segment>& sent,
                     const at::Tensor& output, const std::vector<Segment>& received);
Part send_part(const at::Tensor& tensor, int to, int tag);
// Refuses a message that is shorter than the tensor, which MPI takes as good.
Part receive_part(const at::Tensor& tensor, int from, int tag);
Part barrier_part();

}  // namespace daso::mpi
