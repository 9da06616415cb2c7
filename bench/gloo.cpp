// SPDX-License-Identifier: Apache-2.0
// Question: what do Communicator and Pending cost on top of ProcessGroupGloo?
//
//   daso run --ranks-per-node 4 -- build/release/bin/bench_gloo [MEGABYTES] [ROUNDS]
//
// Both candidates all-reduce the same number of float32 elements on groups of their own over
// loopback, taking turns in one run. A round is one operation of each; its time is that of the
// slowest rank. Prints both medians and the median of the rounds' ratios, ours / direct.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "daso/base/error.h"
#include "daso/comm/tcp_store.h"
#include "daso/comm/world.h"

namespace {

using namespace daso;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The slowest rank's time.
double slowest(World& world, Seconds own) {
  const at::Tensor most = world.everyone()
                              .all_reduce(at::full({1}, own.count(), at::kDouble), Reduce::kMax)
                              .wait(world.limit());
  return most.item<double>();
}

template <typename Body>
double timed(World& world, const Body& body) {
  static_cast<void>(world.everyone().barrier().wait(world.limit()));
  const auto start = Clock::now();
  body();
  return slowest(world, since(start));
}

int compare(World& world, const Address& rendezvous, std::int64_t megabytes, int rounds) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  Communicator& ours = world.group(ranks, "ours");
  auto options = c10d::ProcessGroupGloo::Options::create(whole_milliseconds(world.limit()));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  c10d::ProcessGroupGloo direct(
      c10d_store(Store::connect(rendezvous, world.limit()).under("bench_gloo")), world.rank(),
      world.size(), options);

  const at::Tensor tensor = at::ones({megabytes * 1024 * 1024 / 4});
  const auto run_ours = [&] {
    static_cast<void>(ours.all_reduce(tensor, Reduce::kMax).wait(world.limit()));
  };
  const auto run_direct = [&] {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions how;
    how.reduceOp = c10d::ReduceOp::MAX;
    direct.allreduce(tensors, how)->wait();
  };
  std::vector<double> with_ours;
  std::vector<double> with_direct;
  std::vector<double> ratios;
  for (int round = -5; round < rounds; ++round) {  // the first ones warm up
    const bool ours_first = round % 2 == 0;
    double mine = ours_first ? timed(world, run_ours) : 0;
    const double theirs = timed(world, run_direct);
    if (!ours_first) mine = timed(world, run_ours);
    if (round < 0) continue;
    with_ours.push_back(mine);
    with_direct.push_back(theirs);
    ratios.push_back(mine / theirs);
  }
  if (world.rank() != 0) return kExitOk;
  const double ratio = median(ratios);
  std::sort(ratios.begin(), ratios.end());
  const auto quarter = ratios.size() / 4;
  std::puts(
      nlohmann::json{{"ranks", world.size()},
                     {"bytes", megabytes * 1024 * 1024},
                     {"rounds", rounds},
                     {"seconds_ours", median(with_ours)},
                     {"seconds_direct", median(with_direct)},
                     {"ratio", ratio},
                     {"ratio_quartiles", {ratios[quarter], ratios[ratios.size() - 1 - quarter]}}}
          .dump(2)
          .c_str());
  return kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t megabytes = argc > 1 ? std::atoll(argv[1]) : 16;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  WorldOptions options;
  if (const auto place = place_from(this_environment())) options.place = *place;
  if (options.place.size < 2) {
    std::fputs("start this with: daso run --ranks-per-node 4 -- bench_gloo\n", stderr);
    return kExitConfig;
  }
  return rank_main(options, [&](World& world) {
    return compare(world, *options.place.rendezvous, megabytes, rounds);
  });
}
