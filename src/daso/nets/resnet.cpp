// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "daso/nets/layers.h"
#include "daso/nets/network.h"

namespace daso {
namespace {

// How a block's input reaches its sum where the number of channels or the image's size changes
// (He et al., Deep Residual Learning, 2016, section 3.3). Elsewhere it is the input itself.
enum class Shortcut {
  kPadding,     // option A: every stride-th pixel, zeros for the new channels; no parameters
  kProjection,  // option B: a 1x1 convolution and BatchNorm
};

// The convolutions of a block. The first one with stride > 1 halves the image.
std::vector<ConvolutionShape> basic_block(int from, int width, int stride) {
  return {{.from = from, .to = width, .stride = stride}, {.from = width, .to = width}};
}

// Gives 4 * width channels. The stride is in the 3x3 convolution, as in torchvision ("v1.5"); the
// paper has it in the first 1x1.
std::vector<ConvolutionShape> bottleneck_block(int from, int width, int stride) {
  return {{.from = from, .to = width, .kernel = 1},
          {.from = width, .to = width, .stride = stride},
          {.from = width, .to = 4 * width, .kernel = 1}};
}

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

// Every stride-th pixel; the same size as a convolution of this stride gives.
at::Tensor thinned(const at::Tensor& images, int stride) {
  return images.slice(/*dim=*/2, std::nullopt, std::nullopt, stride)
      .slice(/*dim=*/3, std::nullopt, std::nullopt, stride);
}

ResidualBlock::ResidualBlock(const std::vector<ConvolutionShape>& shapes, Shortcut shortcut) {
  for (const ConvolutionShape& shape : shapes) {
    const std::size_t number = convolutions_.size() + 1;
    convolutions_.push_back(register_module(fmt::format("conv{}", number), convolution(shape)));
    norms_.push_back(register_module(fmt::format("bn{}", number), BatchNorm(shape.to)));
    stride_ *= shape.stride;
  }
  const int from = shapes.front().from;
  const int to = shapes.back().to;
  new_channels_ = to - from;
  if (shortcut == Shortcut::kProjection && (stride_ != 1 || new_channels_ != 0)) {
    projection_ = register_module("downsample", torch::nn::ModuleList());
    projection_->push_back(convolution({.from = from, .to = to, .kernel = 1, .stride = stride_}));
    projection_->push_back(BatchNorm(to));
  }
}

at::Tensor ResidualBlock::forward(const at::Tensor& input) {
  at::Tensor features = input;
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    if (i > 0) features.relu_();
    features = norms_[i](convolutions_[i](features));
  }
  return features.add_(shortcut_of(input)).relu_();
}

at::Tensor ResidualBlock::shortcut_of(const at::Tensor& input) {
  if (projection_) {
    const at::Tensor projected = projection_->at<torch::nn::Conv2dImpl>(0).forward(input);
    return projection_->at<BatchNormImpl>(1).forward(projected);
  }
  if (stride_ == 1 && new_channels_ == 0) return input;
  return at::constant_pad_nd(thinned(input, stride_), {0, 0, 0, 0, 0, new_channels_});
}

void ResidualBlock::zero_last_scale() {
  const at::NoGradGuard no_grad;
  norms_.back()->weight.zero_();
}

using MakeBlock = std::vector<ConvolutionShape> (*)(int from, int width, int stride);

// What the residual networks differ in. Sources: He et al., Deep Residual Learning, 2016, tables 1
// and 6; torchvision's resnet.py.
struct ResNetShape {
  std::vector<int>
      groups;  // blocks of each; all but the first halve the image and double the width
  int width;   // of the first group
  MakeBlock block;
  Shortcut shortcut;
  bool photographs;  // a stem that makes large images four times smaller: 7x7 by 2, max pool by 2
  bool zero_last_scale;  // of every block
};

// Parts are called as in torchvision, so that weights trained there can be loaded by name.
class ResNet : public Network {
 public:
  ResNet(const NetworkOptions& options, const ResNetShape& shape)
      : photographs_(shape.photographs) {
    const int kernel = photographs_ ? 7 : 3;
    const int stride = photographs_ ? 2 : 1;
    conv1_ = register_module(
        "conv1",
        convolution(
            {.from = options.channels, .to = shape.width, .kernel = kernel, .stride = stride}));
    bn1_ = register_module("bn1", BatchNorm(shape.width));
    const int channels = add_groups(shape);
    fc_ = register_module("fc", torch::nn::Linear(channels, options.classes));
    initialise_convolutions(*this);
    if (shape.zero_last_scale) {
      for (const auto& block : blocks_) block->zero_last_scale();
    }
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor features = bn1_(conv1_(images)).relu_();
    if (photographs_) features = at::max_pool2d(features, 3, /*stride=*/2, /*padding=*/1);
    for (const auto& block : blocks_) features = block->forward(features);
    return fc_(features.mean({2, 3}));
  }

 private:
  // Returns the channels of the last group.
  int add_groups(const ResNetShape& shape) {
    int channels = shape.width;
    int width = shape.width;
    for (std::size_t group = 0; group < shape.groups.size(); ++group) {
      auto blocks = register_module(fmt::format("layer{}", group + 1), torch::nn::ModuleList());
      for (int i = 0; i < shape.groups[group]; ++i) {
        const int stride = group > 0 && i == 0 ? 2 : 1;
        const std::vector<ConvolutionShape> shapes = shape.block(channels, width, stride);
        blocks_.push_back(std::make_shared<ResidualBlock>(shapes, shape.shortcut));
        blocks->push_back(blocks_.back());
        channels = shapes.back().to;
      }
      width *= 2;
    }
    return channels;
  }

  bool photographs_;
  torch::nn::Conv2d conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;
  torch::nn::Linear fc_{nullptr};
};

ResNetShape for_photographs(const Groups& groups, MakeBlock block) {
  return {.groups = {groups.begin(), groups.end()},
          .width = 64,
          .block = block,
          .shortcut = Shortcut::kProjection,
          .photographs = true,
          .zero_last_scale = true};
}

}  // namespace

std::shared_ptr<Network> make_small_resnet(const NetworkOptions& options, int blocks) {
  return std::make_shared<ResNet>(options, ResNetShape{.groups = {blocks, blocks, blocks},
                                                       .width = 16,
                                                       .block = basic_block,
                                                       .shortcut = Shortcut::kPadding,
                                                       .photographs = false,
                                                       .zero_last_scale = false});
}

std::shared_ptr<Network> make_basic_resnet(const NetworkOptions& options, const Groups& groups) {
  return std::make_shared<ResNet>(options, for_photographs(groups, basic_block));
}

std::shared_ptr<Network> make_bottleneck_resnet(const NetworkOptions& options,
                                                const Groups& groups) {
  return std::make_shared<ResNet>(options, for_photographs(groups, bottleneck_block));
}

}  // namespace daso
