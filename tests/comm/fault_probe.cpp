// SPDX-License-Identifier: Apache-2.0
// One rank of a job that a fault test disturbs. It all-reduces in a loop, tells how far it is, and
// does to itself what the test asked for:
//
//   fault_probe ROUNDS [RANK MOMENT FAULT]...
//
// MOMENT is before, during or after the collective of the round in the middle, FAULT is kill, stop,
// segv, throw, leave (return from the body at once), config (a ConfigError) or linger (be late).
// At the MOMENT join, FAULT is device (one that this rank does not have) or config (another one).
// DASO_TEST_TIMEOUT is the limit in seconds, DASO_TEST_BACKEND the backend. Survivors leave as
// rank_main says; with DASO_TEST_REBUILD=1 they build the next generation and finish there.
// With DASO_TEST_UNTIL it goes on until there is a file of that name.
#include <ATen/ATen.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/no_reverse_lookup.h"
#include "daso/comm/world.h"

namespace {

using namespace daso;

constexpr std::int64_t kElements = 1 << 20;

struct Fault {
  int rank = 0;
  std::string moment;
  std::string what;
};

void suffer(const std::string& fault, Seconds limit) {
  if (fault == "kill") ::raise(SIGKILL);
  if (fault == "stop") ::raise(SIGSTOP);
  if (fault == "segv") {
    std::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
  }
  if (fault == "throw") throw std::runtime_error("the probe was told to throw");
  if (fault == "config") throw ConfigError("the probe was told to be wrong");
  if (fault == "leave") std::_Exit(0);
  if (fault == "linger") std::this_thread::sleep_for(limit * 3);
}

void spoil_join(const Fault& fault, WorldOptions& options) {
  if (fault.moment != "join" || fault.rank != options.place.rank) return;
  if (fault.what == "device") options.interface = "nowhere";
  if (fault.what == "config") options.configuration = "another";
}

void round_trip(World& world, const std::vector<Fault>& faults, bool middle) {
  const auto at = [&](const char* moment) {
    for (const Fault& fault : faults) {
      if (middle && fault.rank == world.rank() && fault.moment == moment) {
        suffer(fault.what, world.limit());
      }
    }
  };
  at("before");
  Pending pending = world.everyone().all_reduce(at::ones({kElements}), Reduce::kSum);
  at("during");
  const at::Tensor sum = std::move(pending).wait(world.limit());
  DASO_ASSERT(sum[0].item<float>() == static_cast<float>(world.size()));
  at("after");
}

int run(World& world, int rounds, const std::vector<Fault>& faults) {
  if (const auto until = find(this_environment(), "DASO_TEST_UNTIL")) {
    if (world.rank() == 0) std::printf("going on with %d ranks\n", world.size());
    std::fflush(stdout);
    const auto is_there = [&] {
      const at::Tensor seen = at::full({1}, ::access(until->c_str(), F_OK) == 0 ? 1.0 : 0.0);
      world.everyone().all_reduce(seen, Reduce::kMin).wait(world.limit());
      return seen.item<float>() == 1;
    };
    while (!is_there()) round_trip(world, {}, /*middle=*/false);
  }
  for (int round = 0; round < rounds; ++round) round_trip(world, faults, round == rounds / 2);
  if (world.rank() == 0) std::printf("done with %d ranks\n", world.size());
  return kExitOk;
}

int run_and_rebuild(World& world, int rounds, const std::vector<Fault>& faults) {
  try {
    return run(world, rounds, faults);
  } catch (const PeerError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    world = std::move(world).next_generation(Seconds(5));
    return run(world, rounds, {});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  WorldOptions options;
  if (const auto place = place_from(this_environment())) options.place = *place;
  const Environment environment = this_environment();
  options.limit = Seconds(find_integer(environment, "DASO_TEST_TIMEOUT").value_or(20));
  options.backend = find(environment, "DASO_TEST_BACKEND").value_or("gloo");
  std::vector<Fault> faults;
  for (std::size_t i = 1; i + 2 < arguments.size(); i += 3) {
    faults.push_back({std::stoi(arguments[i]), arguments[i + 1], arguments[i + 2]});
    spoil_join(faults.back(), options);
  }
  const int rounds = std::stoi(arguments.at(0));
  const bool rebuild = find(environment, "DASO_TEST_REBUILD").has_value();
  return rank_main(options, [&](World& world) {
    return rebuild ? run_and_rebuild(world, rounds, faults) : run(world, rounds, faults);
  });
}
