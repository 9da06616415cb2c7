// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/tensor/device.h"

namespace daso {

// The device of this rank: the GPUs of a machine are dealt to its ranks in their order. Rank 0 says
// in a line on standard error if ranks share a GPU; that it is the CPU, and why, is the caller's to
// say (DeviceFound::note). To be called by all ranks together, before anything is drawn or made on
// a device (device_module()). Throws ConfigError.
DeviceFound rank_device(World& world, const DeviceChoice& choice);

// The same for those who have nothing else to say: rank 0 says that, too.
at::Device told_device(World& world, const DeviceChoice& choice);

// Ranks that share a GPU, machine by machine: "3 ranks of a share 2 GPUs". Of each rank: the name
// of its machine and the address of its GPU, which is empty on the CPU.
struct RankSeat {
  std::string host;
  std::string gpu;
};
std::vector<std::string> sharing_of(const std::vector<RankSeat>& ranks);

}  // namespace daso
