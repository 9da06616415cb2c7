// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <string>

#include "daso/base/seconds.h"

namespace daso {

// How a tensor is cut among the ranks of a node: rows into `slices` pieces by segment_of(), and
// piece i belongs to local rank first + i. At least 1 piece, and first + slices at most the ranks.
struct Slices {
  int slices = 1;
  int first = 0;
  bool operator==(const Slices&) const = default;
};

// What the ranks of one node do together in every step, blocking: one thread of each rank calls the
// same operations in the same order, any one thread at a time. On a node of one rank both
// operations do nothing.
//
// A link is for tensors of the CPU or of one GPU. On the CPU they go through shared memory where
// that can be had, else through the backend's group of the node. On GPUs NCCL takes them where all
// ranks of the node can use it, else they are copied to pinned memory and go the CPU's way. An
// operation on a GPU comes after what the calling thread's current stream has been given. When the
// call returns, the result is there: the host has waited for it, with the limit, so whoever must
// not wait calls on a thread of its own with a stream of its own.
//
// Tensors are contiguous, of any size including 0, and cut along their first dimension. Both
// operations throw as Pending::wait does.
class NodeLink {
 public:
  virtual ~NodeLink() = default;

  virtual int rank() const = 0;  // local rank
  virtual int size() const = 0;
  // What the bytes go through, for the user: "shared memory", "NCCL 2.28.9".
  virtual std::string kind() const = 0;
  virtual bool shares_memory() const = 0;

  // Float32. The owner's slice becomes its mean over the ranks of the node; what is in the other
  // slices afterwards is of no use.
  virtual void reduce(const at::Tensor& tensor, Slices slices, Seconds limit) = 0;
  // Any type. Everybody's slices become their owners'.
  virtual void gather(const at::Tensor& tensor, Slices slices, Seconds limit) = 0;
};

}  // namespace daso
