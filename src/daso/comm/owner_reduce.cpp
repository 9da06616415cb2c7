// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/owner_reduce.h"

#include <ATen/ATen.h>

#include <utility>

#include "daso/base/error.h"

namespace daso {

void OwnerReduce::send(const at::Tensor& input, const at::Tensor& output) {
  DASO_ASSERT(!pending_);
  DASO_ASSERT(input.sizes() == output.sizes() && input.scalar_type() == output.scalar_type());
  const std::int64_t rows = input.size(0);
  const std::int64_t segment = segment_of(rows, group_.size(), 0).length();
  const std::int64_t even = segment * group_.size();
  output_ = even_ = output;
  at::Tensor sent = input;
  if (even != rows) {
    sent = even_ = room(padded_room_, even);
    sent.narrow(0, 0, rows).copy_(input);
  }
  answer_ = room(answer_room_, segment);
  pending_ = group_.all_to_all(sent, room(received_room_, even));
}

void OwnerReduce::answer(const Rule& rule, Seconds limit) {
  rule((*std::exchange(pending_, std::nullopt)).wait(limit), answer_);
  pending_ = spread();
}

void OwnerReduce::receive(Seconds limit) {
  (*std::exchange(pending_, std::nullopt)).wait(limit);
  const std::int64_t rows = output_.size(0);
  if (even_.size(0) != rows) output_.copy_(even_.narrow(0, 0, rows));
}

// An all_gather does the same, but Gloo's allocates and copies the whole output on each call and
// passes segments on from rank to rank; here each goes straight to everybody.
Pending OwnerReduce::spread() {
  const at::Tensor copies = room(copies_room_, even_.size(0));
  const std::int64_t rows = answer_.size(0);
  for (int rank = 0; rank < group_.size(); ++rank)
    copies.narrow(0, rank * rows, rows).copy_(answer_);
  return group_.all_to_all(copies, even_);
}

std::int64_t OwnerReduce::bytes_sent() const {
  // A segment to each of the others, then the answer to each of them.
  return 2 * (group_.size() - 1) * static_cast<std::int64_t>(answer_.nbytes());
}

at::Tensor OwnerReduce::room(at::Tensor& kept, std::int64_t rows) const {
  std::vector<std::int64_t> sizes = output_.sizes().vec();
  sizes[0] = rows;
  const std::int64_t elements = c10::multiply_integers(sizes);
  if (!kept.defined() || kept.numel() < elements) kept = at::zeros({elements}, output_.options());
  return kept.narrow(0, 0, elements).view(sizes);
}

}  // namespace daso
