// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/layers.h"

#include <torch/nn/init.h>

namespace daso {

torch::nn::Conv2d convolution(const ConvolutionShape& shape) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(shape.from, shape.to, shape.kernel)
                               .stride(shape.stride)
                               .padding(shape.kernel / 2)
                               .bias(false));
}

void initialise_convolutions(const torch::nn::Module& module) {
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (const auto* found = part->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(found->weight, /*a=*/0, torch::kFanOut, torch::kReLU);
    }
  }
}

}  // namespace daso
