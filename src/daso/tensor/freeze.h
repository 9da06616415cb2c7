// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace daso {

// Parameters whose names begin with one of `prefixes` (names.h) get no gradient any more and stay
// as they are. To be called before the module becomes a FlatModel. Statistics of BatchNorm are
// buffers and move on. Throws ConfigError for a beginning that no parameter has, with the nearest
// one; nothing is frozen then.
void freeze(torch::nn::Module& module, const std::vector<std::string>& prefixes);

}  // namespace daso
