// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "daso/comm/link/cut.h"
#include "daso/comm/link/shared_barrier.h"
#include "daso/comm/link/shared_memory.h"
#include "daso/comm/node_link.h"
#include "daso/comm/operation.h"

namespace daso {

// What a link goes by, and how it is watched over.
struct LinkName {
  std::string text;                                  // stands for the group in messages
  std::vector<int> ranks;                            // world ranks, by local rank
  int rank = 0;                                      // ours among them
  std::shared_ptr<std::atomic<std::int64_t>> begun;  // operations
};

// The ranks of a node over shared memory. Every rank has two boxes there. A tensor goes through
// them in chunks, each the same part of every slice, so that all owners have work in each:
//   fill the own box, meet the others, read out of theirs.
// Two boxes in turn make one meeting per chunk enough: who fills a box again has met the others
// since, and they came to that meeting when they were done with the box.
class SharedLink final : public NodeLink {
 public:
  static std::size_t bytes_needed(int ranks);

  SharedLink(SharedMemory memory, LinkName name, Guard guard);

  int rank() const override { return name_.rank; }
  int size() const override { return static_cast<int>(name_.ranks.size()); }
  std::string kind() const override { return "shared memory"; }
  bool shares_memory() const override { return true; }
  void reduce(const at::Tensor& tensor, Slices slices, Seconds limit) override;
  void gather(const at::Tensor& tensor, Slices slices, Seconds limit) override;

 private:
  // What must be equal on all ranks; written into the shared memory, to be compared.
  struct Order {
    std::int32_t reduces = 0;  // or gathers
    std::int32_t slices = 0;
    std::int32_t first = 0;
    std::int64_t rows = 0;
    std::int64_t bytes = 0;
    bool operator==(const Order&) const = default;
    std::string text() const;
  };
  struct Now {  // the operation that runs
    Order order;
    std::int64_t number;
    Seconds limit;
    Deadline deadline;
  };
  class Chunks;

  Now begin(const Order& order, Seconds limit);
  template <typename Fill, typename Read>
  void pass(const Now& now, const Chunks& chunks, const Fill& fill, const Read& read);
  void meet(const Now& now);
  void compare(const Now& now, std::size_t parity);
  Call call_of(const Now& now) const;
  Order& order_of(int rank, std::size_t parity) const;
  std::byte* box_of(int rank, std::size_t parity) const;

  SharedMemory memory_;
  SharedBarrier barrier_;
  const LinkName name_;
  const Guard guard_;
  std::vector<const float*> terms_;  // by rank; kept between calls
};

}  // namespace daso
