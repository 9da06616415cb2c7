// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/ordered_mean.h"

#include <ATen/ATen.h>

#include <algorithm>
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

}  // namespace

void mean_in_order(const std::vector<Share>& shares, const at::Tensor& received,
                   const at::Tensor& mean, const at::Tensor& residual) {
  DASO_ASSERT(received.numel() == static_cast<std::int64_t>(shares.size()) * mean.numel());
  add_in_order(received.const_data_ptr<float>(), shares, mean.mutable_data_ptr<float>(),
               mean.numel());
  if (!residual.defined()) return;
  DASO_ASSERT(residual.numel() <= mean.numel());
  take_residual(residual.mutable_data_ptr<float>(), mean.mutable_data_ptr<float>(),
                residual.numel());
}

OrderedMean::OrderedMean(Communicator& group, std::vector<Share> shares)
    : shares_(std::move(shares)), reduce_(group) {
  std::vector<bool> counted(static_cast<std::size_t>(group.size()));
  for (const Share& share : shares_) counted.at(static_cast<std::size_t>(share.rank)) = true;
  require(static_cast<int>(shares_.size()) == group.size() &&
              std::find(counted.begin(), counted.end(), false) == counted.end(),
          "the ordered mean over {} ranks of group '{}' was given {} shares, or one rank twice",
          group.size(), group.name(), shares_.size());
}

void OrderedMean::operator()(const at::Tensor& tensor, Seconds limit, const at::Tensor& residual) {
  require(tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.dim() >= 1,
          "the ordered mean wants a contiguous float32 tensor with rows");
  const Deadline deadline(limit);
  reduce_.send(tensor, tensor);
  reduce_.answer([&](const at::Tensor& received,
                     const at::Tensor& mean) { mean_in_order(shares_, received, mean, residual); },
                 deadline.left());
  reduce_.receive(deadline.left());
}

}  // namespace daso
