// SPDX-License-Identifier: Apache-2.0
#include "daso/model/names.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

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

bool begins_with_one_of(const std::string& name, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](const std::string& beginning) {
    return name == beginning || name.starts_with(beginning + ".");
  });
}

void check_beginnings(const torch::nn::Module& module, const std::vector<std::string>& beginnings) {
  if (beginnings.empty()) return;
  const std::vector<std::string> known = beginnings_in(module);
  for (const std::string& beginning : beginnings) {
    if (std::find(known.begin(), known.end(), beginning) != known.end()) continue;
    throw ConfigError(fmt::format("no parameter's name begins with '{}'; did you mean '{}'?",
                                  beginning, nearest(beginning, known).value_or(known.front())));
  }
}

}  // namespace daso
