// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <vector>

#include "daso/nets/layers.h"

// What the networks of attention, in transformers.cpp, are made of.
namespace daso {

// Of what sees a sequence of vectors: [batch, length, width] in and out.
struct AttentionShape {
  int width = 0;
  int heads = 1;        // divides the width
  bool causal = false;  // each place sees only itself and those before it
  double dropout = 0;   // of what a block adds to its input
};

// Softmax of queries times keys, times values, in every head (Vaswani et al., Attention Is All You
// Need, 2017, section 3.2). Parts are called as in PyTorch's MultiheadAttention.
class SelfAttention : public torch::nn::Module {
 public:
  explicit SelfAttention(const AttentionShape& shape);
  at::Tensor forward(const at::Tensor& sequence);

  // Those of the first product; the second is a layer of its own.
  std::vector<at::Tensor*> factors() { return {&in_weight_, &in_bias_}; }

 private:
  AttentionShape shape_;
  at::Tensor in_weight_;
  at::Tensor in_bias_;
  torch::nn::Linear out_{nullptr};
};

// Attention, then two linear layers with GELU between them, four times as wide; each behind a
// LayerNorm, thinned by dropout and added to what came in. Parts are called as in torchvision's
// EncoderBlock.
class AttentionBlock : public torch::nn::Module {
 public:
  explicit AttentionBlock(const AttentionShape& shape);
  at::Tensor forward(const at::Tensor& sequence);

 private:
  torch::nn::LayerNorm ln_1_{nullptr};
  std::shared_ptr<SelfAttention> self_attention_;
  torch::nn::LayerNorm ln_2_{nullptr};
  torch::nn::Linear widen_{nullptr};
  torch::nn::Linear narrow_{nullptr};
  std::shared_ptr<Dropout> dropout_;
};

torch::nn::LayerNorm layer_norm(int width);

// Draws all weights as GPT-2 does: normal with deviation 0.02, biases 0, norms as they are. What
// a block adds to its input is drawn smaller by sqrt(2 * blocks), so that their sum does not grow
// with the number of blocks (Radford et al., Language Models are Unsupervised Multitask Learners,
// 2019, section 2.3). Dropout layers draw as of the first pass.
void initialise_attention(torch::nn::Module& module, int blocks);

}  // namespace daso
