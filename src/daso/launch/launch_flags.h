// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/world_options.h"
#include "daso/launch/launch.h"

// The flags that every command with ranks has, and what follows from them.
namespace daso {

// How many ranks a command starts where its user does not say.
struct Shape {
  int nodes = 1;
  int ranks_per_node = 1;
};

struct LaunchFlags {
  std::optional<int> nodes;
  std::vector<int> ranks_per_node;  // one entry: for every node
  std::vector<int> node_of_rank;
  std::vector<std::string> hosts;  // one a node; empty: this machine, or others call us
  std::string ssh = "ssh";         // how hosts are reached: a program and its first words
  std::optional<int> node_index;   // start only this node's ranks
  std::string backend = kUsualBackend;
  std::string rendezvous;
  std::string interface;
  Ports ports;
  std::string cluster;
  std::string job_token;
  Seconds limit{60};
  std::optional<Seconds> join_limit;  // instead, for the first meeting
  Seconds grace{5};
  // No flags of their own: what the command needs after a signal, and ends with.
  Seconds time_to_save{0};
  int stopped_exit = kExitStopped;
  bool one_voice = false;
  bool check_collectives = false;
  bool no_shared_memory = false;
  bool keep_survivors = false;
  std::optional<Survival> survival;

  // Has the user said anything about the world's size?
  bool sized() const {
    return nodes || !hosts.empty() || !ranks_per_node.empty() || !node_of_rank.empty();
  }
};

// The number of ranks of each node. Throws ConfigError where the flags contradict each other.
std::vector<int> ranks_of_nodes(const LaunchFlags& flags, Shape shape);

// What to start; the command is still to be filled in.
LaunchOptions launch_options(const LaunchFlags& flags, Shape shape);

// What one rank joins with. Where another launcher than ours counts the ranks, flags that name
// nodes cut its world into such nodes, and must fit its size.
WorldOptions world_options(const LaunchFlags& flags, const Place& place);

}  // namespace daso
