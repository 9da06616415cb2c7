// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daso/tensor/device.h"

namespace daso::cuda {

// DeviceModule::make_graph.
std::unique_ptr<StepGraph> make_graph();

}  // namespace daso::cuda
