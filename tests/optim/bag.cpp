// SPDX-License-Identifier: Apache-2.0
#include "bag.h"

#include <torch/nn/module.h>

#include <algorithm>

namespace daso {

Bag::Bag(const Shapes& shapes) : module(std::make_shared<torch::nn::Module>("Bag")) {
  for (const auto& [name, shape] : shapes) {
    std::string flat = name;
    std::replace(flat.begin(), flat.end(), '.', '_');  // a dot would mean a module
    tensors[name] = module->register_parameter(flat, at::zeros(shape));
  }
}

}  // namespace daso
