// SPDX-License-Identifier: Apache-2.0
#include "daso/model/freeze.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

bool begins_with(const std::string& name, const std::string& beginning) {
  return name == beginning || name.starts_with(beginning + ".");
}

// All that a parameter's name can begin with: layer1, layer1.0, layer1.0.weight.
std::vector<std::string> beginnings_in(const torch::nn::Module& module) {
  std::vector<std::string> all;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      all.push_back(name.substr(0, dot));
    }
    all.push_back(name);
  }
  return all;
}

}  // namespace

void freeze(torch::nn::Module& module, const std::vector<std::string>& beginnings) {
  const std::vector<std::string> known = beginnings_in(module);
  for (const std::string& beginning : beginnings) {
    if (std::find(known.begin(), known.end(), beginning) == known.end()) {
      throw ConfigError(fmt::format("no parameter's name begins with '{}'; did you mean '{}'?",
                                    beginning, nearest(beginning, known).value_or(known.front())));
    }
    for (auto& item : module.named_parameters()) {
      if (begins_with(item.key(), beginning)) item.value().set_requires_grad(false);
    }
  }
}

}  // namespace daso
