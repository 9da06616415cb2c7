// SPDX-License-Identifier: Apache-2.0
#include "daso/model/freeze.h"

#include <torch/nn/module.h>

#include "daso/model/names.h"

namespace daso {

void freeze(torch::nn::Module& module, const std::vector<std::string>& beginnings) {
  check_beginnings(module, beginnings);
  for (auto& item : module.named_parameters()) {
    if (begins_with_one_of(item.key(), beginnings)) item.value().set_requires_grad(false);
  }
}

}  // namespace daso
