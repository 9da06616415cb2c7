// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/freeze.h"

#include <torch/nn/module.h>

#include "daso/tensor/names.h"

namespace daso {

void freeze(torch::nn::Module& module, const std::vector<std::string>& prefixes) {
  check_prefixes(module, prefixes);
  for (auto& item : module.named_parameters()) {
    if (has_prefix(item.key(), prefixes)) item.value().set_requires_grad(false);
  }
}

}  // namespace daso
