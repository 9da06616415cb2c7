// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/tensor/device.h"

namespace daso {

// The device of this rank: the GPUs of a machine are dealt to its ranks in their order. Rank 0 says
// in a line on standard error if ranks share a GPU; that it is the CPU, and why, is the caller's to
// say (DeviceFound::note). To be called before anything is drawn or made on a device (device_module()). Throws
// ConfigError.
DeviceFound rank_device(const World& world, const DeviceChoice& choice);

}  // namespace daso
