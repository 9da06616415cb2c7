// SPDX-License-Identifier: Apache-2.0
// Question: how much faster do the ranks of a node average through shared memory than through Gloo?
//
//   daso run --ranks-per-node 4 -- build/release/bin/bench_node_link [ROUNDS]
//
// Both candidates reduce and gather the same float32 tensor, a slice per rank, taking turns in one
// run. A round is one such pair of each; its time is that of the slowest rank. Prints for every
// size both medians and the median of the rounds' ratios, shared memory / Gloo.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "daso/comm/link/group_link.h"
#include "daso/comm/world.h"

namespace {

using namespace daso;
using nlohmann::json;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double timed(World& world, NodeLink& link, const at::Tensor& tensor) {
  const Slices slices{.slices = link.size()};
  static_cast<void>(world.everyone().barrier().wait(world.limit()));
  const auto start = Clock::now();
  link.reduce(tensor, slices, world.limit());
  link.gather(tensor, slices, world.limit());
  const at::Tensor slowest =
      world.everyone()
          .all_reduce(at::full({1}, since(start).count(), at::kDouble), Reduce::kMax)
          .wait(world.limit());
  return slowest.item<double>();
}

json compare(World& world, std::int64_t bytes, int rounds) {
  NodeLink& shared = world.node_link("shared");
  require(shared.shares_memory(), "the ranks of this node cannot share memory");
  GroupLink group(world.group(world.topology().ranks_of(world.node()), "bench"));
  const at::Tensor tensor = at::ones({bytes / static_cast<std::int64_t>(sizeof(float))});
  std::vector<double> with_shared;
  std::vector<double> with_group;
  std::vector<double> ratios;
  for (int round = -5; round < rounds; ++round) {  // the first ones warm up
    const bool shared_first = round % 2 == 0;
    double ours = shared_first ? timed(world, shared, tensor) : 0;
    const double theirs = timed(world, group, tensor);
    if (!shared_first) ours = timed(world, shared, tensor);
    if (round < 0) continue;
    with_shared.push_back(ours);
    with_group.push_back(theirs);
    ratios.push_back(ours / theirs);
  }
  std::sort(ratios.begin(), ratios.end());
  const auto quarter = ratios.size() / 4;
  return {{"bytes", bytes},
          {"seconds_shared", median(with_shared)},
          {"seconds_group", median(with_group)},
          {"ratio", median(ratios)},
          {"ratio_quartiles", {ratios[quarter], ratios[ratios.size() - 1 - quarter]}}};
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  WorldOptions options;
  if (const auto place = place_from(this_environment())) options.place = *place;
  if (options.place.size < 2) {
    std::fputs("start this with: daso run --ranks-per-node 4 -- bench_node_link\n", stderr);
    return kExitConfig;
  }
  return rank_main(options, [&](World& world) {
    constexpr std::int64_t kMegabyte = 1 << 20;
    json sizes = json::array();
    for (const std::int64_t megabytes : {1, 10, 100}) {
      sizes.push_back(compare(world, megabytes * kMegabyte, rounds));
    }
    const json report = {{"ranks", world.size()}, {"rounds", rounds}, {"sizes", sizes}};
    if (world.rank() == 0) std::puts(report.dump(2).c_str());
    return kExitOk;
  });
}
