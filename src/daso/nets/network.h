// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <array>
#include <memory>

#include "daso/nets/make_network.h"

namespace daso {

// A module that turns a batch of inputs into scores, one for each class: [batch, classes] of
// images, [batch, length, classes] of a text, where each place is given a class, its next token.
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input) = 0;
};

// The networks by name, for the table in make_network.cpp, which has checked the options.
std::shared_ptr<Network> make_mlp(const NetworkOptions& options);
std::shared_ptr<Network> make_cnn(const NetworkOptions& options);

// For small images: 6 * blocks + 2 layers.
std::shared_ptr<Network> make_small_resnet(const NetworkOptions& options, int blocks);
// For photographs, by the blocks of each group: of two 3x3 convolutions, or bottlenecks of three.
using Groups = std::array<int, 4>;
std::shared_ptr<Network> make_basic_resnet(const NetworkOptions& options, const Groups& groups);
std::shared_ptr<Network> make_bottleneck_resnet(const NetworkOptions& options,
                                                const Groups& groups);

std::shared_ptr<Network> make_vit_tiny(const NetworkOptions& options);
std::shared_ptr<Network> make_transformer(const NetworkOptions& options);

}  // namespace daso
