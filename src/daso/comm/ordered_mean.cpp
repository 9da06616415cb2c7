// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/ordered_mean.h"

#include <ATen/ATen.h>

#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

// Element by element within a block that stays in the cache, rank by rank across it.
constexpr std::int64_t kBlock = 4096;

// sum[i] = weight_0 * terms[rank_0][i] + weight_1 * terms[rank_1][i] + ...
void add_in_order(const float* terms, const std::vector<Share>& shares, float* sum,
                  std::int64_t elements) {
  for (std::int64_t begin = 0; begin < elements; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, elements);
    for (std::size_t n = 0; n < shares.size(); ++n) {
      const float* term = terms + shares[n].rank * elements;
      const float weight = shares[n].weight;
      for (std::int64_t i = begin; i < end; ++i) {
        const float product = weight * term[i];
        sum[i] = n == 0 ? product : sum[i] + product;
      }
    }
  }
}

void take_residual(float* residual, float* sum, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    sum[i] += residual[i];
    residual[i] = 0;
  }
}

std::int64_t elements_per_row(const at::Tensor& tensor) {
  return tensor.size(0) == 0 ? 0 : tensor.numel() / tensor.size(0);
}

}  // namespace

OrderedMean::OrderedMean(Communicator& group, std::vector<Share> shares)
    : group_(group), shares_(std::move(shares)), spread_(group) {
  std::vector<bool> counted(static_cast<std::size_t>(group.size()));
  for (const Share& share : shares_) counted.at(static_cast<std::size_t>(share.rank)) = true;
  require(static_cast<int>(shares_.size()) == group.size() &&
              std::find(counted.begin(), counted.end(), false) == counted.end(),
          "the ordered mean over {} ranks of group '{}' was given {} shares, or one rank twice",
          group.size(), group.name(), shares_.size());
}

void OrderedMean::operator()(const at::Tensor& tensor, Seconds limit, const at::Tensor& residual) {
  const Deadline deadline(limit);
  start(tensor);
  turn(deadline.left(), residual);
  finish(deadline.left());
}

void OrderedMean::start(const at::Tensor& tensor) {
  DASO_ASSERT(!pending_);
  require(tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.dim() >= 1,
          "the ordered mean wants a contiguous float32 tensor with rows");
  const std::int64_t rows = tensor.size(0);
  const std::int64_t even = segment_of(rows, group_.size(), 0).length() * group_.size();
  tensor_ = tensor;
  whole_ = tensor;
  if (even != rows) {
    whole_ = room(padded_, even, tensor);
    whole_.narrow(0, 0, rows).copy_(tensor);
  }
  pending_ = group_.all_to_all(whole_, room(received_, even, tensor));
}

void OrderedMean::turn(Seconds limit, const at::Tensor& residual) {
  const at::Tensor received = (*std::exchange(pending_, std::nullopt)).wait(limit);
  const at::Tensor sum = room(sum_, whole_.size(0) / group_.size(), tensor_);
  add_in_order(received.const_data_ptr<float>(), shares_, sum.mutable_data_ptr<float>(),
               sum.numel());
  if (residual.defined()) {
    DASO_ASSERT(residual.numel() ==
                segment_of(tensor_.size(0), group_.size(), group_.rank()).length() *
                    elements_per_row(tensor_));
    take_residual(residual.mutable_data_ptr<float>(), sum.mutable_data_ptr<float>(),
                  residual.numel());
  }
  pending_ = spread_(sum, whole_);
}

void OrderedMean::finish(Seconds limit) {
  (*std::exchange(pending_, std::nullopt)).wait(limit);
  const std::int64_t rows = tensor_.size(0);
  if (whole_.size(0) != rows) tensor_.copy_(whole_.narrow(0, 0, rows));
}

std::int64_t OrderedMean::bytes_sent(const at::Tensor& tensor) const {
  if (group_.size() == 1) return 0;
  const std::int64_t piece = segment_of(tensor.size(0), group_.size(), 0).length();
  // A segment to each of the others, then the own one to each of them.
  return 2 * (group_.size() - 1) * piece * elements_per_row(tensor) *
         static_cast<std::int64_t>(sizeof(float));
}

at::Tensor OrderedMean::room(at::Tensor& kept, std::int64_t rows, const at::Tensor& like) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[0] = rows;
  const std::int64_t elements = c10::multiply_integers(sizes);
  if (!kept.defined() || kept.numel() < elements) kept = at::zeros({elements}, like.options());
  return kept.narrow(0, 0, elements).view(sizes);
}

}  // namespace daso
