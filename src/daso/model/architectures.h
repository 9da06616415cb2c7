// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daso/model/network.h"

// The networks by name, for the table in network.cpp, which has checked the options.
namespace daso {

std::shared_ptr<Network> make_mlp(const NetworkOptions& options);
std::shared_ptr<Network> make_cnn(const NetworkOptions& options);
std::shared_ptr<Network> make_resnet20(const NetworkOptions& options);
std::shared_ptr<Network> make_resnet18(const NetworkOptions& options);
std::shared_ptr<Network> make_resnet50(const NetworkOptions& options);

}  // namespace daso
