// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/conv.h>

namespace daso {

// Convolutions here have no bias, since BatchNorm follows, and odd kernels with so much padding
// that a stride of 1 keeps the image's size; a stride of 2 halves it, rounded up.
struct ConvolutionShape {
  int from = 0;  // channels
  int to = 0;
  int kernel = 3;
  int stride = 1;
};
torch::nn::Conv2d convolution(const ConvolutionShape& shape);

// Draws the weights of all convolutions in the module as torchvision's networks do: normal with
// variance 2 / (to * kernel * kernel), which keeps the size of gradients from layer to layer
// (He et al., Delving Deep into Rectifiers, 2015, section 2.2). Linear layers and BatchNorm keep
// LibTorch's default.
void initialise_convolutions(const torch::nn::Module& module);

}  // namespace daso
