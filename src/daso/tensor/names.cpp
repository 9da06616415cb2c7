// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/names.h"

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

bool has_prefix(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& beginning) {
    return name == beginning || name.starts_with(beginning + ".");
  });
}

void check_prefixes(const torch::nn::Module& module, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) return;
  const std::vector<std::string> known = beginnings_in(module);
  for (const std::string& beginning : prefixes) {
    if (std::find(known.begin(), known.end(), beginning) != known.end()) continue;
    throw ConfigError(fmt::format("no parameter's name begins with '{}'; did you mean '{}'?",
                                  beginning, nearest(beginning, known).value_or(known.front())));
  }
}

}  // namespace daso
