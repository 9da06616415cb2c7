// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daso/comm/pending.h"

namespace daso {

class Group;  // in group.h

enum class Reduce { kSum, kMean, kMax, kMin };

// A half-open range of rows.
struct Segment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t length() const { return end - begin; }
};

// How rows are cut among ranks, everywhere: pieces of ceil(rows / ranks), so the last ones may be
// shorter or empty.
Segment segment_of(std::int64_t rows, int ranks, int rank);

// Throws ConfigError for a tensor in memory that groups and node links cannot reach: it must be
// dense, contiguous, and on the CPU or a GPU. The one place that says so.
void check_memory(const std::string& operation, const at::Tensor& tensor);

// One group of ranks and what they can do together. All ranks of a group call the same operations
// in the same order; they complete in any order, in the background. A world of one is a world:
// every operation is then the identity.
//
// Tensors are dense and contiguous, of type float64, float32, bfloat16, float16, int8, int32 or
// int64, of any size including 0, and are cut along their first dimension. Anything else is a
// ConfigError on the spot. A tensor handed over belongs to the operation until wait() gives it
// back: reading or writing it before is a race.
//
// A tensor of a GPU travels through pinned memory of the host. The call waits until the calling
// thread's current stream has brought it there, which is all that a GPU's tensors do in the
// background; wait() copies the result up, on the stream that is current then. This is for what is
// small or seldom: gradients take a NodeLink.
//
// A peer that calls another operation, type or size makes a ConfigError on all ranks, noticed on a
// group's first operations, and on all of them when the world was opened with check_collectives.
class Communicator {
 public:
  explicit Communicator(std::unique_ptr<Group> group);
  Communicator(Communicator&&) noexcept;
  ~Communicator();

  int rank() const;  // in this group
  int size() const;
  const std::string& name() const;
  const std::vector<int>& world_ranks() const;  // world rank of each rank of this group

  // In place; gives the tensor back. The mean is for floating-point types.
  Pending all_reduce(at::Tensor tensor, Reduce how);
  // Gives `output`, which has the rows of segment_of(input rows, size(), rank()).
  Pending reduce_scatter(at::Tensor input, at::Tensor output, Reduce how);
  // The inverse cut: `input` has the rows of segment_of(output rows, size(), rank()).
  // `limit`: where others may take longer than the world's own.
  Pending all_gather(at::Tensor input, at::Tensor output,
                     std::optional<Seconds> limit = std::nullopt);
  // In place: everybody's tensor becomes root's.
  Pending broadcast(at::Tensor tensor, int root);
  // Sends segment r of `input` to rank r. `output` holds the segment of this rank from every rank,
  // in rank order: size() * segment rows.
  Pending all_to_all(at::Tensor input, at::Tensor output);
  Pending send(at::Tensor tensor, int to);
  Pending receive(at::Tensor tensor, int from);
  // Gives an undefined tensor once all ranks are here.
  Pending barrier();

 private:
  std::unique_ptr<Group> group_;
};

}  // namespace daso
