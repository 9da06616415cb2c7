// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include "daso/nets/architectures.h"
#include "daso/nets/network.h"
#include "daso/nets/residual_block.h"

namespace daso {
namespace {

using MakeBlock = std::vector<ConvolutionShape> (*)(int from, int width, int stride);

// What the residual networks differ in. Sources: He et al., Deep Residual Learning, 2016, tables 1
// and 6; torchvision's resnet.py.
struct Plan {
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
  ResNet(const NetworkOptions& options, const Plan& plan) : photographs_(plan.photographs) {
    const int kernel = photographs_ ? 7 : 3;
    const int stride = photographs_ ? 2 : 1;
    conv1_ = register_module(
        "conv1",
        convolution(
            {.from = options.channels, .to = plan.width, .kernel = kernel, .stride = stride}));
    bn1_ = register_module("bn1", BatchNorm(plan.width));
    const int channels = add_groups(plan);
    fc_ = register_module("fc", torch::nn::Linear(channels, options.classes));
    initialise_convolutions(*this);
    if (plan.zero_last_scale) {
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
  int add_groups(const Plan& plan) {
    int channels = plan.width;
    int width = plan.width;
    for (std::size_t group = 0; group < plan.groups.size(); ++group) {
      auto blocks = register_module(fmt::format("layer{}", group + 1), torch::nn::ModuleList());
      for (int i = 0; i < plan.groups[group]; ++i) {
        const int stride = group > 0 && i == 0 ? 2 : 1;
        const std::vector<ConvolutionShape> shapes = plan.block(channels, width, stride);
        blocks_.push_back(std::make_shared<ResidualBlock>(shapes, plan.shortcut));
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

Plan for_photographs(const Groups& groups, MakeBlock block) {
  return {.groups = {groups.begin(), groups.end()},
          .width = 64,
          .block = block,
          .shortcut = Shortcut::kProjection,
          .photographs = true,
          .zero_last_scale = true};
}

}  // namespace

std::shared_ptr<Network> make_small_resnet(const NetworkOptions& options, int blocks) {
  return std::make_shared<ResNet>(options, Plan{.groups = {blocks, blocks, blocks},
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
