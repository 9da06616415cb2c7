// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/attention.h"

#include <ATen/ATen.h>

#include <cmath>

namespace daso {

SelfAttention::SelfAttention(const AttentionShape& shape) : shape_(shape) {
  in_weight_ = register_parameter("in_proj_weight", at::empty({3 * shape.width, shape.width}));
  in_bias_ = register_parameter("in_proj_bias", at::zeros({3 * shape.width}));
  out_ = register_module("out_proj", torch::nn::Linear(shape.width, shape.width));
}

at::Tensor SelfAttention::forward(const at::Tensor& sequence) {
  const std::int64_t batch = sequence.size(0);
  const std::int64_t length = sequence.size(1);
  // Queries, keys and values of each head: [3, batch, heads, length, width / heads].
  const at::Tensor all = at::linear(sequence, in_weight_, in_bias_)
                             .view({batch, length, 3, shape_.heads, shape_.width / shape_.heads})
                             .permute({2, 0, 3, 1, 4});
  const at::Tensor seen =
      at::scaled_dot_product_attention(all[0], all[1], all[2], /*attn_mask=*/std::nullopt,
                                       /*dropout_p=*/0.0, shape_.causal);
  return out_(seen.transpose(1, 2).reshape({batch, length, shape_.width}));
}

AttentionBlock::AttentionBlock(const AttentionShape& shape) {
  ln_1_ = register_module("ln_1", layer_norm(shape.width));
  self_attention_ = register_module("self_attention", std::make_shared<SelfAttention>(shape));
  ln_2_ = register_module("ln_2", layer_norm(shape.width));
  // torchvision counts the activation (1) and the dropout (2) as well.
  const auto mlp = register_module("mlp", std::make_shared<torch::nn::Module>("mlp"));
  widen_ = mlp->register_module("0", torch::nn::Linear(shape.width, 4 * shape.width));
  narrow_ = mlp->register_module("3", torch::nn::Linear(4 * shape.width, shape.width));
  dropout_ = register_module("dropout", std::make_shared<Dropout>(shape.dropout));
}

at::Tensor AttentionBlock::forward(const at::Tensor& sequence) {
  const at::Tensor attended =
      sequence + dropout_->forward(self_attention_->forward(ln_1_(sequence)));
  return attended + dropout_->forward(narrow_(at::gelu(widen_(ln_2_(attended)))));
}

torch::nn::LayerNorm layer_norm(int width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-6));
}

void initialise_attention(torch::nn::Module& module, int blocks) {
  constexpr double kDeviation = 0.02;
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    at::Tensor parameter = item.value();
    const bool adds = name.ends_with("out_proj.weight") || name.ends_with("mlp.3.weight");
    if (parameter.dim() > 1) {
      parameter.normal_(0, adds ? kDeviation / std::sqrt(2.0 * blocks) : kDeviation);
    } else if (name.ends_with("bias")) {
      parameter.zero_();
    }
  }
  draw_dropout(module, {});  // or all layers would draw alike
}

}  // namespace daso
