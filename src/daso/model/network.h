// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace daso {

// A module that turns a batch of inputs into scores, one for each class.
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input) = 0;
};

struct NetworkOptions {
  std::string name = "cnn";  // of network_names()
  int channels = 3;
  int height = 32;
  int width = 32;
  int classes = 10;
};

// mlp, cnn, resnet20, resnet18, resnet50
std::vector<std::string> network_names();

// Parameters come from LibTorch's default generator. Throws ConfigError for an unknown name (with
// the nearest one) and for an input that is too small for the network.
std::shared_ptr<Network> make_network(const NetworkOptions& options);

}  // namespace daso
