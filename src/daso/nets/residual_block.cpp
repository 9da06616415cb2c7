// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/residual_block.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace daso {
namespace {

// Every stride-th pixel; the same size as a convolution of this stride gives.
at::Tensor thinned(const at::Tensor& images, int stride) {
  return images.slice(/*dim=*/2, std::nullopt, std::nullopt, stride)
      .slice(/*dim=*/3, std::nullopt, std::nullopt, stride);
}

}  // namespace

std::vector<ConvolutionShape> basic_block(int from, int width, int stride) {
  return {{.from = from, .to = width, .stride = stride}, {.from = width, .to = width}};
}

std::vector<ConvolutionShape> bottleneck_block(int from, int width, int stride) {
  return {{.from = from, .to = width, .kernel = 1},
          {.from = width, .to = width, .stride = stride},
          {.from = width, .to = 4 * width, .kernel = 1}};
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

}  // namespace daso
