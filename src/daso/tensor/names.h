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

// Throws ConfigError for a prefix that no parameter of the module has, with the nearest one.
void check_prefixes(const torch::nn::Module& module, const std::vector<std::string>& prefixes);

// Parameters whose names begin with one of the prefixes get no gradient any more and stay
// as they are. To be called before the module becomes a FlatModel. Statistics of BatchNorm are
// buffers and move on. Throws ConfigError for a prefix that no parameter has, with the nearest one;
// nothing is frozen then.
void freeze(torch::nn::Module& module, const std::vector<std::string>& prefixes);

}  // namespace daso
