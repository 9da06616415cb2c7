// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/owner_reduce.h"

#include <ATen/ATen.h>

#include <bit>
#include <utility>

#include "daso/base/checksum.h"
#include "daso/base/error.h"

namespace daso {

SentSums::SentSums(Communicator& group)
    : group_(group),
      sent_(at::zeros({group.size()}, at::kLong)),
      received_(at::zeros({group.size()}, at::kLong)) {}

void SentSums::add_sent(const at::Tensor& segments) { add(segments, sent_); }
void SentSums::add_received(const at::Tensor& segments) { add(segments, received_); }

// What stays on this rank has no way on which it could be damaged.
void SentSums::add(const at::Tensor& segments, at::Tensor& sums) const {
  const auto* bytes = static_cast<const std::byte*>(segments.const_data_ptr());
  const std::size_t length = segments.nbytes() / static_cast<std::size_t>(group_.size());
  auto* sum = sums.mutable_data_ptr<std::int64_t>();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    const auto before = std::bit_cast<std::uint64_t>(sum[rank]);
    const std::uint64_t own =
        checksum_of({bytes + static_cast<std::size_t>(rank) * length, length});
    sum[rank] = std::bit_cast<std::int64_t>(std::rotl(before, 1) ^ own);
  }
}

void SentSums::tell() {
  DASO_ASSERT(!telling_);
  telling_ = group_.all_to_all(sent_, at::empty_like(sent_));
}

std::optional<int> SentSums::damaged(Seconds limit) {
  const at::Tensor told = (*std::exchange(telling_, std::nullopt)).wait(limit);
  std::optional<int> first;
  for (int rank = 0; rank < group_.size() && !first; ++rank) {
    const auto as = [rank](const at::Tensor& sums) {
      return sums.const_data_ptr<std::int64_t>()[rank];
    };
    if (as(told) != as(received_)) first = rank;
  }
  sent_ = at::zeros_like(sent_);
  received_.zero_();
  return first;
}

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
  if (sums_ != nullptr) sums_->add_sent(sent);
  pending_ = group_.all_to_all(sent, room(received_room_, even));
}

void OwnerReduce::answer(const Rule& rule, Seconds limit) {
  const at::Tensor received = (*std::exchange(pending_, std::nullopt)).wait(limit);
  if (sums_ != nullptr) sums_->add_received(received);
  rule(received, answer_);
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
