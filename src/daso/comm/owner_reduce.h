// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <functional>
#include <optional>

#include "daso/comm/communicator.h"

namespace daso {

// Checksums of what the ranks of a group send to owners of segments (OwnerReduce), where the
// backend does not check what it carries. What is damaged on its way to an owner becomes part of an
// answer that is the same on all ranks: no comparison of what they hold would find it.
//
//   sums.add_sent(segments);      // each tensor that is sent, in one order on all ranks
//   sums.add_received(segments);  // each that came, in the same order
//   sums.tell();                  // when all is sent; in the background
//   sums.damaged(limit);          // when all has come
class SentSums {
 public:
  // The group is borrowed.
  explicit SentSums(Communicator& group);

  // Segments of equal length, one for each rank or from each, in their order.
  void add_sent(const at::Tensor& segments);
  void add_received(const at::Tensor& segments);

  void tell();
  // The first rank of the group of which something else has come than it sent; all sums then begin
  // anew.
  std::optional<int> damaged(Seconds limit);

 private:
  void add(const at::Tensor& segments, at::Tensor& sums) const;

  Communicator& group_;
  at::Tensor sent_;      // to each rank
  at::Tensor received_;  // from each
  std::optional<Pending> telling_;
};

// A reduction over a group of ranks in which the owner of each segment applies a rule of ours, in
// three steps:
//
//   send     segment r of `input` goes to rank r, its owner (all_to_all)
//   answer   the owner makes one segment of those that it received, which goes to everybody
//   receive  `output` holds the answers of all owners
//
// An all_reduce knows no other rules than sums, and gives no promise about their order. Several
// reductions are in flight at once, each in an OwnerReduce of its own. Buffers are kept and grow to
// the largest tensor.
class OwnerReduce {
 public:
  // `received` has the owner's segment from every rank, one behind the other in rank order;
  // `answer` is to be filled with the rows of one segment. What a rule throws leaves answer().
  using Rule = std::function<void(const at::Tensor& received, const at::Tensor& answer)>;

  // The group is borrowed; no other thread may use it meanwhile. So are the sums, to which what
  // travels to owners is added; null: nobody needs them.
  explicit OwnerReduce(Communicator& group, SentSums* sums = nullptr)
      : group_(group), sums_(sums) {}

  // Both are cut along their first dimension by segment_of() and of the same size and type; they
  // may be one tensor, and belong to the reduction until receive(). Rows that do not divide by the
  // ranks travel in a padded copy, whose last rows mean nothing. Does not block.
  void send(const at::Tensor& input, const at::Tensor& output);
  // Both throw as Pending::wait does.
  void answer(const Rule& rule, Seconds limit);
  void receive(Seconds limit);

  // To other ranks, by all three steps of the last reduction.
  std::int64_t bytes_sent() const;

 private:
  Pending spread();
  at::Tensor room(at::Tensor& kept, std::int64_t rows) const;

  Communicator& group_;
  SentSums* const sums_;
  at::Tensor output_;
  at::Tensor even_;                 // output_, or a padded copy with rows that divide by the ranks
  at::Tensor answer_;               // this rank's segment of it
  std::optional<Pending> pending_;  // the operation in flight
  at::Tensor padded_room_;
  at::Tensor received_room_;
  at::Tensor answer_room_;
  at::Tensor copies_room_;
};

}  // namespace daso
