// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "daso/nets/layers.h"
#include "daso/nets/network.h"

namespace daso {
namespace {

// Two hidden layers; sees pixels as a list, so it is the network for tests and for comparison.
class Mlp : public Network {
 public:
  explicit Mlp(const NetworkOptions& options) {
    constexpr std::int64_t kHidden = 256;
    const std::int64_t pixels = std::int64_t{options.channels} * options.height * options.width;
    fc1_ = register_module("fc1", torch::nn::Linear(pixels, kHidden));
    fc2_ = register_module("fc2", torch::nn::Linear(kHidden, kHidden));
    fc3_ = register_module("fc3", torch::nn::Linear(kHidden, options.classes));
  }

  at::Tensor forward(const at::Tensor& images) override {
    const at::Tensor hidden = fc1_(images.flatten(/*start_dim=*/1)).relu_();
    return fc3_(fc2_(hidden).relu_());
  }

 private:
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
  torch::nn::Linear fc3_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_mlp(const NetworkOptions& options) {
  return std::make_shared<Mlp>(options);
}

namespace {

// Three 3x3 convolutions with BatchNorm and ReLU, max pooling between them, the mean over what is
// left of the image, and a linear layer. Small enough to learn within a minute or two on a CPU.
class Cnn : public Network {
 public:
  explicit Cnn(const NetworkOptions& options) {
    conv1_ = register_module("conv1", convolution({.from = options.channels, .to = 32}));
    bn1_ = register_module("bn1", BatchNorm(32));
    conv2_ = register_module("conv2", convolution({.from = 32, .to = 64}));
    bn2_ = register_module("bn2", BatchNorm(64));
    conv3_ = register_module("conv3", convolution({.from = 64, .to = 128}));
    bn3_ = register_module("bn3", BatchNorm(128));
    fc_ = register_module("fc", torch::nn::Linear(128, options.classes));
    initialise_convolutions(*this);
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor features = at::max_pool2d(bn1_(conv1_(images)).relu_(), /*kernel_size=*/2);
    features = at::max_pool2d(bn2_(conv2_(features)).relu_(), /*kernel_size=*/2);
    features = bn3_(conv3_(features)).relu_();
    return fc_(features.mean({2, 3}));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  BatchNorm bn2_{nullptr};
  torch::nn::Conv2d conv3_{nullptr};
  BatchNorm bn3_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_cnn(const NetworkOptions& options) {
  return std::make_shared<Cnn>(options);
}

}  // namespace daso
