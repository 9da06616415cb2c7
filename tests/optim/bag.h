// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daso/tensor/flat_model.h"

namespace daso {

using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;  // by name

// A module of named parameters and nothing else, for a FlatModel, and its tensors. All are 0.
struct Bag {
  explicit Bag(const Shapes& shapes);

  std::shared_ptr<torch::nn::Module> module;
  std::map<std::string, at::Tensor> tensors;
};

}  // namespace daso
