// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include "daso/nets/make_network.h"

namespace daso {

// A module that turns a batch of inputs into scores, one for each class: [batch, classes] of
// images, [batch, length, classes] of a text, where each place is given a class, its next token.
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input) = 0;
};

}  // namespace daso
