// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>

#include "daso/nets/architectures.h"
#include "daso/nets/attention.h"
#include "daso/nets/network.h"

namespace daso {
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

}  // namespace daso
