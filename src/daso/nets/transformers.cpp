// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/transformers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"
#include "daso/nets/network.h"

namespace daso {

SelfAttention::SelfAttention(const AttentionShape& shape) : shape_(shape) {
  in_weight_ = register_parameter("in_proj_weight", at::empty({3 * shape.width, shape.width}));
  in_bias_ = register_parameter("in_proj_bias", at::zeros({3 * shape.width}));
  out_ = register_module("out_proj", torch::nn::Linear(shape.width, shape.width));
}

at::Tensor SelfAttention::forward(const at::Tensor& sequence) {
  const std::int64_t batch = sequence.size(0);
  const std::int64_t length = sequence.size(1);
  // Queries, keys and values. By split, whose derivative is one copy, not a sum of three.
  const std::vector<at::Tensor> all =
      at::linear(sequence, in_weight_, in_bias_).split(shape_.width, /*dim=*/-1);
  const auto by_head = [&](const at::Tensor& part) {  // [batch, heads, length, width / heads]
    return part.view({batch, length, shape_.heads, shape_.width / shape_.heads}).transpose(1, 2);
  };
  const at::Tensor seen = at::scaled_dot_product_attention(
      by_head(all[0]), by_head(all[1]), by_head(all[2]), /*attn_mask=*/std::nullopt,
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

namespace {

// A language model that predicts each place's next token from those before it: embeddings of
// tokens and places, causal blocks, LayerNorm, and a score for each token from the same embedding
// (tied: Press and Wolf, Using the Output Embedding to Improve Language Models, 2017).
class Transformer : public Network {
 public:
  explicit Transformer(const NetworkOptions& options) {
    const TransformerSizes& sizes = options.transformer;
    places_ = register_parameter("position_embedding", at::empty({options.width, sizes.embedding}));
    tokens_ =
        register_module("token_embedding", torch::nn::Embedding(options.classes, sizes.embedding));
    dropout_ = register_module("dropout", std::make_shared<Dropout>(options.dropout));
    const auto layers = register_module("layers", torch::nn::ModuleList());
    const AttentionShape shape{
        .width = sizes.embedding, .heads = sizes.heads, .causal = true, .dropout = options.dropout};
    for (int i = 0; i < sizes.layers; ++i) {
      blocks_.push_back(std::make_shared<AttentionBlock>(shape));
      layers->push_back(blocks_.back());
    }
    norm_ = register_module("norm", layer_norm(sizes.embedding));
    initialise_attention(*this, sizes.layers);
  }

  at::Tensor forward(const at::Tensor& tokens) override {
    at::Tensor sequence = dropout_->forward(tokens_(tokens) + places_.narrow(0, 0, tokens.size(1)));
    for (const auto& block : blocks_) sequence = block->forward(sequence);
    return at::linear(norm_(sequence), tokens_->weight);
  }

 private:
  at::Tensor places_;
  torch::nn::Embedding tokens_{nullptr};
  std::shared_ptr<Dropout> dropout_;
  std::vector<std::shared_ptr<AttentionBlock>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_transformer(const NetworkOptions& options) {
  return std::make_shared<Transformer>(options);
}

namespace {

// "Ti/16" of Touvron et al., Training data-efficient image transformers, 2021, table 1.
constexpr int kLayers = 12;
constexpr AttentionShape kShape = {.width = 192, .heads = 3};

// Small images would be few patches of 16x16 pixels.
int patch_of(const NetworkOptions& options) {
  constexpr int kSmall = 96;
  return std::min(options.height, options.width) < kSmall ? 4 : 16;
}

std::int64_t patches_of(const NetworkOptions& options) {
  const int patch = patch_of(options);
  require(options.height % patch == 0 && options.width % patch == 0,
          "model '{0}' cuts images of this size into patches of {1}x{1} pixels: {2}x{3} is no "
          "multiple of that",
          options.name, patch, options.height, options.width);
  return std::int64_t{options.height / patch} * (options.width / patch);
}

// Patches of the image as a sequence, with one more place in front whose result is the class
// (Dosovitskiy et al., An Image is Worth 16x16 Words, 2021). Parts are called as in torchvision's
// VisionTransformer.
class VisionTransformer : public Network {
 public:
  explicit VisionTransformer(const NetworkOptions& options) {
    const int patch = patch_of(options);
    class_token_ = register_parameter("class_token", at::empty({1, 1, kShape.width}));
    conv_proj_ = register_module(
        "conv_proj",
        torch::nn::Conv2d(
            torch::nn::Conv2dOptions(options.channels, kShape.width, patch).stride(patch)));
    add_encoder(patches_of(options) + 1, options.dropout);
    const auto heads = register_module("heads", std::make_shared<torch::nn::Module>("heads"));
    head_ = heads->register_module("head", torch::nn::Linear(kShape.width, options.classes));
    initialise_attention(*this, kLayers);
  }

  at::Tensor forward(const at::Tensor& images) override {
    const at::Tensor patches = conv_proj_(images).flatten(/*start_dim=*/2).transpose(1, 2);
    at::Tensor sequence = dropout_->forward(
        at::cat({class_token_.expand({images.size(0), -1, -1}), patches}, /*dim=*/1) + places_);
    for (const auto& block : blocks_) sequence = block->forward(sequence);
    return head_(ln_(sequence.select(/*dim=*/1, 0)));
  }

 private:
  void add_encoder(std::int64_t places, double dropout) {
    const auto encoder = register_module("encoder", std::make_shared<torch::nn::Module>("encoder"));
    places_ = encoder->register_parameter("pos_embedding", at::empty({1, places, kShape.width}));
    dropout_ = encoder->register_module("dropout", std::make_shared<Dropout>(dropout));
    AttentionShape shape = kShape;
    shape.dropout = dropout;
    const auto layers =
        encoder->register_module("layers", std::make_shared<torch::nn::Module>("layers"));
    for (int i = 0; i < kLayers; ++i) {
      blocks_.push_back(layers->register_module(fmt::format("encoder_layer_{}", i),
                                                std::make_shared<AttentionBlock>(shape)));
    }
    ln_ = encoder->register_module("ln", layer_norm(kShape.width));
  }

  at::Tensor class_token_;
  torch::nn::Conv2d conv_proj_{nullptr};
  at::Tensor places_;
  std::shared_ptr<Dropout> dropout_;
  std::vector<std::shared_ptr<AttentionBlock>> blocks_;
  torch::nn::LayerNorm ln_{nullptr};
  torch::nn::Linear head_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_vit_tiny(const NetworkOptions& options) {
  return std::make_shared<VisionTransformer>(options);
}

}  // namespace daso
