// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/launch_plan.h"

#include <algorithm>
#include <numeric>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/place.h"

namespace daso {

std::string RankSpot::node_name() const { return fmt::format("node{}", node); }

std::string RankSpot::text() const {
  return fmt::format("rank {} ({}.{})", rank, node_name(), local_rank);
}

std::string RankSpot::prefix() const { return fmt::format("[{}.{}] ", node, local_rank); }

void validate(const LaunchOptions& options) {
  const int nodes = static_cast<int>(options.ranks_per_node.size());
  require(!options.command.empty(), "there is no program to start; write it after --");
  require(nodes >= 1, "a job needs at least one node");
  for (const int ranks : options.ranks_per_node) {
    require(ranks >= 1, "a node cannot have {} ranks; it needs at least 1", ranks);
  }
  require(options.grace >= Seconds(0), "the grace time cannot be {} s; give 0 or more",
          options.grace.count());
  if (options.survival) {
    const auto& [restarts, min_nodes, standby, silence, joins, witness, views] = *options.survival;
    require(standby < nodes, "--standby {} of {} nodes leaves none that begins; give fewer",
            standby, nodes);
    require(min_nodes <= nodes - standby,
            "--min-nodes {} are more than the {} nodes that the run begins with", min_nodes,
            nodes - standby);
    require(witness.empty() || (options.node_index && nodes > 1),
            "--witness is for several launchers, each with a --node-index: one that has all nodes "
            "cannot fall into halves");
  }
  if (options.node_index) {
    require(*options.node_index >= 0 && *options.node_index < nodes,
            "node index {} does not exist: the job has {} nodes, counted from 0",
            *options.node_index, nodes);
    require(nodes == 1 || !options.rendezvous.empty(),
            "several launchers need a place to meet; give all of them the same rendezvous "
            "HOST:PORT, an address of node 0");
    const bool list = options.rendezvous.find(',') != std::string::npos;
    require(!list || options.survival,
            "rendezvous {} names several places; only a job with --on-failure continue has one for "
            "each launcher",
            options.rendezvous);
    if (nodes > 1 && options.survival) {
      require(
          static_cast<int>(launcher_addresses(options).size()) == nodes,
          "a job of {} nodes that goes on when one is lost needs {} places in --rendezvous, one "
          "for each launcher, like a:4000,b:4000; got {}",
          nodes, nodes, options.rendezvous);
      require(!options.job_token.empty(),
              "several launchers that go on when one is lost need a job token that all know: "
              "--job-token-file FILE or DASO_JOB_TOKEN");
    }
    const std::vector<Address> places =
        nodes == 1 ? std::vector<Address>() : launcher_addresses(options);
    for (const Address& place : places) {
      require(place.port != 0,
              "rendezvous {} has port 0; several launchers need a port that all of them know",
              options.rendezvous);
    }
  }
  if (!options.cluster.empty()) {
    require(!options.node_index && options.rendezvous.empty() && options.interface.empty(),
            "a cluster's ranks are all started here and meet on its first node; leave node index, "
            "rendezvous and interface out");
    require(options.backend != "mpi", "backend mpi cannot start ranks on a cluster; use gloo");
  }
  if (options.backend == "mpi") {
    require(!options.node_index,
            "backend mpi starts ranks on this machine only; for several machines call mpirun "
            "yourself: every command joins its world");
    require(!options.keep_survivors,
            "backend mpi cannot go on without a lost rank; use backend gloo or tcp");
  }
}

std::vector<Address> launcher_addresses(const LaunchOptions& options) {
  std::vector<Address> places;
  for (const std::string& text : split(options.rendezvous, ',')) {
    places.push_back(parse_address(text));
  }
  return places;
}

std::vector<RankSpot> all_spots(const LaunchOptions& options) {
  std::vector<RankSpot> spots;
  for (int node = 0; node < static_cast<int>(options.ranks_per_node.size()); ++node) {
    for (int local = 0; local < options.ranks_per_node[static_cast<std::size_t>(node)]; ++local) {
      spots.push_back({static_cast<int>(spots.size()), node, local});
    }
  }
  return spots;
}

std::vector<RankSpot> own_spots(const LaunchOptions& options) {
  std::vector<RankSpot> spots = all_spots(options);
  if (options.node_index) {
    std::erase_if(spots, [&](const RankSpot& spot) { return spot.node != *options.node_index; });
  }
  return spots;
}

Environment rank_environment(Environment inherited, const LaunchOptions& options,
                             const RankSpot& spot, const JobAddress& job) {
  const std::vector<int>& per_node = options.ranks_per_node;
  Environment& environment = inherited;
  for (const char* name : {"DASO_RENDEZVOUS", kLineVariable, kJoinsVariable}) {
    environment.erase(name);  // of an outer job
  }
  environment["RANK"] = std::to_string(spot.rank);
  environment["WORLD_SIZE"] = std::to_string(std::accumulate(per_node.begin(), per_node.end(), 0));
  environment["LOCAL_RANK"] = std::to_string(spot.local_rank);
  environment["LOCAL_WORLD_SIZE"] = std::to_string(per_node[static_cast<std::size_t>(spot.node)]);
  environment["GROUP_RANK"] = std::to_string(spot.node);
  environment["GROUP_WORLD_SIZE"] = std::to_string(per_node.size());
  environment["MASTER_ADDR"] = job.store.host;
  environment["MASTER_PORT"] = std::to_string(job.store.port);
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  environment["DASO_NODE"] = spot.node_name();
  environment["DASO_JOB_TOKEN"] = job.token;
  environment["DASO_LAUNCHER"] = "daso";
  environment.erase("DASO_PORTS");
  if (!options.ports.any()) environment["DASO_PORTS"] = options.ports.text();
  environment[kBackendVariable] = options.backend;
  environment.erase(kReplayVariable);
  environment.erase(kReplayAfterVariable);
  if (!options.replay.empty()) {
    environment[kReplayVariable] = options.replay;
    environment[kReplayOutVariable] = options.replay_out;
  }
  environment.erase(kColumnsVariable);
  if (options.columns && spot.rank == 0) {
    environment[kColumnsVariable] = std::to_string(*options.columns);
  }
  add_thread_defaults(environment);
  return inherited;
}

void add_thread_defaults(Environment& environment) {
  // Ranks share the cores: one thread each, and a thread that waits leaves its core to the others.
  environment.emplace("OMP_NUM_THREADS", "1");
  environment.emplace("OMP_WAIT_POLICY", "passive");
}

}  // namespace daso
