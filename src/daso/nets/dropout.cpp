// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/dropout.h"

#include <ATen/ATen.h>

#include <span>

namespace daso {
namespace {

constexpr std::uint64_t kDropout = 7;  // tells this use of the seed from others

}  // namespace

// The factor is no part of a tensor: in bf16 it would be rounded, and change the mean.
at::Tensor Dropout::forward(const at::Tensor& values) {
  if (chance_ == 0 || !is_training()) return values;
  const at::Tensor kept = at::empty(values.sizes(), at::kBool);
  const std::span<bool> all(kept.mutable_data_ptr<bool>(), static_cast<std::size_t>(kept.numel()));
  for (bool& keep : all) keep = random_.fraction() >= chance_;
  return values * kept * (1 / (1 - chance_));
}

void draw_dropout(torch::nn::Module& network, const DropoutPass& pass) {
  RandomStream random{pass.seed, kDropout, static_cast<std::uint64_t>(pass.rank),
                      static_cast<std::uint64_t>(pass.step), static_cast<std::uint64_t>(pass.part)};
  for (const auto& layer : network.modules(/*include_self=*/false)) {
    if (auto* found = layer->as<Dropout>()) found->draw_from(RandomStream(random.next()));
  }
}

}  // namespace daso
