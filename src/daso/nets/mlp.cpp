// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "daso/nets/architectures.h"
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

}  // namespace daso
