// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/nets/architectures.h"
#include "daso/nets/attention.h"
#include "daso/nets/network.h"

namespace daso {
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
