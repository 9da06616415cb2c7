// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/launch_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

// Ranks of each node in a list like 0,0,1. Nodes are numbered in the order in which they appear.
std::vector<int> count_nodes(const std::vector<int>& node_of_rank) {
  std::vector<int> ranks;
  for (const int node : node_of_rank) {
    const auto known = static_cast<int>(ranks.size());
    require(
        node <= known,
        "--node-of-rank {}: node {} appears before node {}; number nodes from 0 in the order in "
        "which they appear",
        fmt::join(node_of_rank, ","), node, known);
    if (node == known) ranks.push_back(0);
    ++ranks[static_cast<std::size_t>(node)];
  }
  return ranks;
}

void check_hosts(const LaunchFlags& flags, std::size_t nodes) {
  require(flags.hosts.empty() || flags.hosts.size() == nodes,
          "--hosts {} are {} nodes, but the other flags ask for {}; leave --nodes out, or give as "
          "many",
          join(flags.hosts, ","), flags.hosts.size(), nodes);
}

std::vector<int> counted_ranks(const LaunchFlags& flags, Shape shape) {
  const std::vector<int>& list = flags.ranks_per_node;
  if (list.size() > 1) {
    const auto nodes = static_cast<int>(list.size());
    require(!flags.nodes || *flags.nodes == nodes,
            "--nodes {} and --ranks-per-node {} contradict each other: the list has {} entries; "
            "leave --nodes out, or give one entry a node",
            flags.nodes.value_or(0), fmt::join(list, ","), nodes);
    return list;
  }
  const bool alone = flags.backend == "self";
  const int usual = flags.hosts.empty() ? shape.nodes : static_cast<int>(flags.hosts.size());
  const int nodes = flags.nodes.value_or(alone ? 1 : usual);
  const int ranks = list.empty() ? (alone ? 1 : shape.ranks_per_node) : list.front();
  std::vector<int> same(static_cast<std::size_t>(nodes), ranks);
  return same;
}

}  // namespace

std::vector<int> ranks_of_nodes(const LaunchFlags& flags, Shape shape) {
  std::vector<int> ranks = counted_ranks(flags, shape);
  if (!flags.node_of_rank.empty()) {
    const std::vector<int> listed = count_nodes(flags.node_of_rank);
    const bool also = flags.nodes || !flags.ranks_per_node.empty();
    require(!also || ranks == listed,
            "--node-of-rank {} makes nodes of {} ranks, --nodes and --ranks-per-node of {}; leave "
            "one out",
            fmt::join(flags.node_of_rank, ","), fmt::join(listed, ","), fmt::join(ranks, ","));
    ranks = listed;
  }
  check_hosts(flags, ranks.size());
  const int total = std::accumulate(ranks.begin(), ranks.end(), 0);
  require(flags.backend != "self" || total == 1,
          "--backend self is a world of one rank, {} are asked for; use gloo or mpi", total);
  return ranks;
}

LaunchOptions launch_options(const LaunchFlags& flags, Shape shape) {
  LaunchOptions options;
  options.ranks_per_node = ranks_of_nodes(flags, shape);
  const bool neighbours = std::is_sorted(flags.node_of_rank.begin(), flags.node_of_rank.end());
  require(
      neighbours,
      "--node-of-rank {}: daso numbers the ranks that it starts node by node; sort the list, or "
      "start the ranks by mpirun or torchrun, which every command joins",
      fmt::join(flags.node_of_rank, ","));
  options.node_index = flags.node_index;
  options.rendezvous = flags.rendezvous;
  options.interface = flags.interface;
  options.cluster = flags.cluster;
  // Whoever started this over ssh speaks to us through it.
  const bool over_ssh = !flags.hosts.empty() && flags.node_index.has_value();
  options.signal_source = over_ssh ? SignalSource::kInput : SignalSource::kSystem;
  options.job_token = flags.job_token.empty()
                          ? find(this_environment(), "DASO_JOB_TOKEN").value_or("")
                          : flags.job_token;
  options.backend = flags.backend;
  options.ports = flags.ports;
  options.limit = flags.limit;
  options.join_limit = flags.join_limit;
  options.grace = flags.grace;
  options.time_to_save = flags.time_to_save;
  options.stopped_exit = flags.stopped_exit;
  options.keep_survivors = flags.keep_survivors;
  options.survival = flags.survival;
  options.one_voice = flags.one_voice;
  return options;
}

WorldOptions world_options(const LaunchFlags& flags, const Place& place) {
  WorldOptions options;
  options.place = place;
  options.backend = flags.backend;
  options.interface = flags.interface;
  options.ports = flags.ports;
  options.limit = flags.limit;
  options.join_limit = flags.join_limit;
  options.check_collectives = flags.check_collectives;
  options.share_memory = !flags.no_shared_memory;
  options.node_of_rank = flags.node_of_rank;
  if (place.launcher == Launcher::kDaso || place.launcher == Launcher::kNone) return options;

  require(flags.cluster.empty(),
          "--cluster {} starts ranks on its nodes, but this is a rank that {} has started; leave "
          "the flag out",
          flags.cluster, name_of(place.launcher));
  require(!flags.node_index,
          "--node-index {} starts the ranks of a node, but this is a rank that {} has started; "
          "leave the flag out",
          flags.node_index.value_or(0), name_of(place.launcher));
  require(flags.hosts.empty(),
          "--hosts {} starts ranks by ssh, but this is a rank that {} has started; leave the flag "
          "out",
          join(flags.hosts, ","), name_of(place.launcher));
  if (!flags.job_token.empty()) options.place.job_token = flags.job_token;
  if (!flags.rendezvous.empty()) {
    require(!place.fixed_rendezvous || place.rendezvous->text() == flags.rendezvous,
            "--rendezvous is {}, but MASTER_ADDR and MASTER_PORT say {}; leave the flag out",
            flags.rendezvous, place.rendezvous ? place.rendezvous->text() : "nothing");
    if (!place.fixed_rendezvous) {
      options.place.rendezvous = parse_address(flags.rendezvous);
      options.place.store_at = StoreAt::kRankZero;
    }
  }
  if (!flags.sized()) return options;
  const std::vector<int> ranks = ranks_of_nodes(flags, Shape{});
  const int total = std::accumulate(ranks.begin(), ranks.end(), 0);
  require(total == place.size,
          "the flags ask for {} ranks, but this is a rank of a world of {} that {} has started; "
          "leave --nodes, --ranks-per-node and --node-of-rank out, or make them fit",
          total, place.size, name_of(place.launcher));
  if (!options.node_of_rank.empty()) return options;
  for (std::size_t node = 0; node < ranks.size(); ++node) {
    const auto members = static_cast<std::size_t>(ranks[node]);
    options.node_of_rank.insert(options.node_of_rank.end(), members, static_cast<int>(node));
  }
  return options;
}

}  // namespace daso
