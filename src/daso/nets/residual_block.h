// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/container/modulelist.h>

#include <vector>

#include "daso/nets/batch_norm.h"
#include "daso/nets/layers.h"

namespace daso {

// How a block's input reaches its sum where the number of channels or the image's size changes
// (He et al., Deep Residual Learning, 2016, section 3.3). Elsewhere it is the input itself.
enum class Shortcut {
  kPadding,     // option A: every stride-th pixel, zeros for the new channels; no parameters
  kProjection,  // option B: a 1x1 convolution and BatchNorm
};

// The convolutions of a block. The first one with stride > 1 halves the image.
std::vector<ConvolutionShape> basic_block(int from, int width, int stride);
// Gives 4 * width channels. The stride is in the 3x3 convolution, as in torchvision ("v1.5"); the
// paper has it in the first 1x1.
std::vector<ConvolutionShape> bottleneck_block(int from, int width, int stride);

// relu(input's shortcut + convolutions of the input), BatchNorm behind every convolution. Parts
// are called as in torchvision: conv1, bn1, conv2, ..., downsample.
class ResidualBlock : public torch::nn::Module {
 public:
  ResidualBlock(const std::vector<ConvolutionShape>& shapes, Shortcut shortcut);

  at::Tensor forward(const at::Tensor& input);

  // Makes the block the identity to begin with, apart from its shortcut, which helps large batches
  // (Goyal et al., Accurate, Large Minibatch SGD, 2017, section 5.1).
  void zero_last_scale();

 private:
  at::Tensor shortcut_of(const at::Tensor& input);

  int stride_ = 1;
  int new_channels_ = 0;
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<BatchNorm> norms_;
  torch::nn::ModuleList projection_{nullptr};  // empty where the shortcut needs none
};

}  // namespace daso
