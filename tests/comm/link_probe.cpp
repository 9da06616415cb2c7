// SPDX-License-Identifier: Apache-2.0
// One rank of a job that a fault test disturbs from outside: it reduces and gathers on its node
// until that fails, and says "running" once it is at it. DASO_TEST_TIMEOUT is the limit in seconds.
#include <ATen/ATen.h>

#include <cstdio>

#include "daso/base/error.h"
#include "daso/comm/no_reverse_lookup.h"
#include "daso/comm/world.h"

namespace {

using namespace daso;

constexpr std::int64_t kElements = 1 << 20;
constexpr int kRoundsAtFirst = 5;

int run(World& world) {
  NodeLink& link = world.node_link("test");
  const Slices slices{.slices = link.size()};
  const at::Tensor tensor = at::ones({kElements});
  for (std::int64_t round = 0;; ++round) {
    link.reduce(tensor, slices, world.limit());
    link.gather(tensor, slices, world.limit());
    DASO_ASSERT(tensor[kElements - 1].item<float>() == 1.0F);  // the mean of ones
    if (round != kRoundsAtFirst) continue;
    std::puts(link.shares_memory() ? "running" : "running without shared memory");
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  const Environment environment = this_environment();
  WorldOptions options;
  if (const auto place = place_from(environment)) options.place = *place;
  options.limit = Seconds(find_integer(environment, "DASO_TEST_TIMEOUT").value_or(20));
  return rank_main(options, run);
}
