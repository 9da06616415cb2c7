// SPDX-License-Identifier: Apache-2.0
#include "daso/run/rank_device.h"

#include <cstdio>

#include "daso/base/error.h"

namespace daso {
namespace {

struct OnMachine {
  int before = 0;  // ranks of this machine that come before this one
  int all = 0;
};

OnMachine on_machine(const World& world) {
  OnMachine count;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.host_of(rank) != world.host_of(world.rank())) continue;
    ++count.all;
    if (rank < world.rank()) ++count.before;
  }
  return count;
}

}  // namespace

DeviceFound rank_device(const World& world, const DeviceChoice& choice) {
  const OnMachine ranks = on_machine(world);
  const DeviceFound found = find_device(choice, ranks.before);
  if (world.rank() != 0 || found.device.is_cpu()) return found;
  const auto gpus = choice.index ? 1 : static_cast<int>(device_module().gpus().size());
  if (ranks.all > gpus) {
    fmt::print(stderr, "daso: {} ranks of {} share {} GPU{}\n", ranks.all, world.host_of(0), gpus,
               gpus == 1 ? "" : "s");
  }
  return found;
}

}  // namespace daso
