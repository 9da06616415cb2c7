// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <functional>

namespace daso {

// Adds a tensor up over the ranks that share statistics, in place; the same bits on all.
using SumOverRanks = std::function<void(const at::Tensor& values)>;

// BatchNorm of images as LibTorch has it, by whose names its parts are called. In training its mean
// and variance can be taken over the examples of several ranks.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  explicit BatchNormImpl(std::int64_t channels);

  at::Tensor forward(const at::Tensor& images);

  void share(SumOverRanks sum) { sum_ = std::move(sum); }

 private:
  at::Tensor over_ranks(const at::Tensor& images);

  SumOverRanks sum_;  // empty: over this rank's own examples
};
TORCH_MODULE(BatchNorm);

// All BatchNorm layers of a network take their statistics over ranks from now on. All of these
// ranks run the same layers in the same order. Returns how many layers that are.
int share_statistics(torch::nn::Module& network, const SumOverRanks& sum);

}  // namespace daso
