// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/base/environment.h"
#include "daso/comm/network.h"
#include "daso/launch/launch.h"

// What a launch comes down to: which ranks, and what each of them is told. Pure.
namespace daso {

// Where one rank stands.
struct RankSpot {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  std::string node_name() const;  // node1
  std::string text() const;       // rank 3 (node1.1)
  std::string prefix() const;     // "[1.1] "
  bool operator==(const RankSpot&) const = default;
};

// Throws ConfigError for options that make no sense, alone or together.
void validate(const LaunchOptions& options);

// Where the launcher of each node listens, in a job of several launchers that survives.
std::vector<Address> launcher_addresses(const LaunchOptions& options);

// All ranks of the job, node by node.
std::vector<RankSpot> all_spots(const LaunchOptions& options);
// Those that this launcher starts.
std::vector<RankSpot> own_spots(const LaunchOptions& options);

// How the ranks find each other, and know each other.
struct JobAddress {
  Address store;
  std::string token;  // empty: none
};

// The variables of one rank: torchrun's names, and ours. `inherited` are the launcher's own.
Environment rank_environment(Environment inherited, const LaunchOptions& options,
                             const RankSpot& spot, const JobAddress& job);

// What all ranks get that their user has not set.
void add_thread_defaults(Environment& environment);

}  // namespace daso
