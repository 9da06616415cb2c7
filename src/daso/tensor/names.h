// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

// Parameters by the prefixes of their names: "layer1" or "layer1.0.weight", whole words between
// dots.
namespace daso {

bool has_prefix(const std::string& name, const std::vector<std::string>& prefixes);

// Throws ConfigError for a beginning that no parameter of the module has, with the nearest one.
void check_prefixes(const torch::nn::Module& module, const std::vector<std::string>& prefixes);

}  // namespace daso
