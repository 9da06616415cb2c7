// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daso/model/flat_model.h"

namespace daso {

// A module of named parameters and nothing else.
struct Bag : torch::nn::Module {
  explicit Bag(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& shapes) {
    for (const auto& [name, shape] : shapes) {
      std::string flat = name;
      std::replace(flat.begin(), flat.end(), '.', '_');  // a dot would mean a module
      tensors[name] = register_parameter(flat, at::zeros(shape));
    }
  }
  std::map<std::string, at::Tensor> tensors;
};

}  // namespace daso
