// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/names.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

// All that a parameter's name can begin with: layer1, layer1.0, layer1.0.weight.
std::vector<std::string> prefixes_in(const torch::nn::Module& module) {
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
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& prefix) {
    return name == prefix || name.starts_with(prefix + ".");
  });
}

void check_prefixes(const torch::nn::Module& module, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) return;
  const std::vector<std::string> known = prefixes_in(module);
  for (const std::string& prefix : prefixes) {
    if (std::find(known.begin(), known.end(), prefix) != known.end()) continue;
    throw ConfigError(fmt::format("no parameter's name begins with '{}'; did you mean '{}'?",
                                  prefix, nearest(prefix, known).value_or(known.front())));
  }
}

void freeze(torch::nn::Module& module, const std::vector<std::string>& prefixes) {
  check_prefixes(module, prefixes);
  for (auto& item : module.named_parameters()) {
    if (has_prefix(item.key(), prefixes)) item.value().set_requires_grad(false);
  }
}

}  // namespace daso
