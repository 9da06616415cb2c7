// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "daso/nets/network.h"

// Networks and inputs whose values are known in closed form, as network_numbers.py has them.
namespace daso::test {

// Of a case that it wrote.
NetworkOptions options_of(const nlohmann::json& expected);

// With random parameters, the same each time.
std::shared_ptr<Network> seeded(const NetworkOptions& options);

// Parameters and buffers, by their place in the order of names.
void fill(Network& network);

struct Examples {
  at::Tensor inputs;  // images in double precision
  at::Tensor labels;
};
Examples examples_for(const NetworkOptions& options, std::int64_t batch);

}  // namespace daso::test
