// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/ordered_mean.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "daso/base/error.h"
#include "daso/kernels/mean.h"

namespace daso {
namespace {

// The weighted mean of what each rank has sent from `begin` on: as much as has a residual, or all.
void mean_of_part(const std::vector<Share>& shares, std::span<const float> received,
                  std::span<float> mean, std::size_t begin, std::span<float> residual) {
  const std::size_t whole = mean.size();
  const std::size_t elements = residual.empty() ? whole - begin : residual.size();
  std::vector<Part> parts;
  parts.reserve(shares.size());
  for (const Share& share : shares) {
    const std::size_t first = static_cast<std::size_t>(share.rank) * whole + begin;
    parts.push_back({.values = received.subspan(first, elements), .weight = share.weight});
  }
  weighted_mean(parts, residual, mean.subspan(begin, elements));
}

}  // namespace

void mean_in_order(const std::vector<Share>& shares, const at::Tensor& received,
                   const at::Tensor& mean, const at::Tensor& residual) {
  DASO_ASSERT(received.numel() == static_cast<std::int64_t>(shares.size()) * mean.numel());
  const std::span<const float> terms(received.const_data_ptr<float>(),
                                     static_cast<std::size_t>(received.numel()));
  const std::span<float> means(mean.mutable_data_ptr<float>(),
                               static_cast<std::size_t>(mean.numel()));
  if (!residual.defined() || residual.numel() == 0)
    return mean_of_part(shares, terms, means, 0, {});
  DASO_ASSERT(residual.numel() <= mean.numel());
  const std::span<float> left_out(residual.mutable_data_ptr<float>(),
                                  static_cast<std::size_t>(residual.numel()));
  mean_of_part(shares, terms, means, 0, left_out);
  if (left_out.size() < means.size()) mean_of_part(shares, terms, means, left_out.size(), {});
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
  if (!tensor.is_cpu()) {
    const at::Tensor on_host = tensor.cpu();
    (*this)(on_host, limit, residual);
    tensor.copy_(on_host);
    return;
  }
  const Deadline deadline(limit);
  reduce_.send(tensor, tensor);
  reduce_.answer([&](const at::Tensor& received,
                     const at::Tensor& mean) { mean_in_order(shares_, received, mean, residual); },
                 deadline.left());
  reduce_.receive(deadline.left());
}

}  // namespace daso
