// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daso/comm/rank_main.h"
#include "daso/launch/launch_flags.h"

namespace daso {

// Options that must be equal on all ranks, as pairs of flag and value.
using Configuration = std::vector<std::pair<std::string, std::string>>;

// A command that runs on ranks.
struct RankJob {
  std::string command;  // "bench comm"
  const LaunchFlags& flags;
  Shape shape;  // where the flags do not say
  Configuration configuration;
};

// Runs the body on every rank and returns the exit code. A process that a launcher (ours, torchrun,
// mpirun, srun) has made a rank joins that world. Any other starts the ranks, which are processes
// with the same command line, or is itself the one rank where one is asked for.
int on_ranks(const RankJob& job, const std::vector<std::string>& arguments,
             const std::function<int(World&)>& body);

// The same for a body that goes on when nodes are lost (comm/worlds.h).
int on_ranks(const RankJob& job, const std::vector<std::string>& arguments,
             const std::function<int(Worlds&)>& body);

// Starts ranks that are processes of this program with these arguments, waits for them
// and returns the job's exit code.
int start_ranks(LaunchOptions options, const std::vector<std::string>& arguments);

}  // namespace daso
