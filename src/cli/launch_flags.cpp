// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/launch_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "cli/flags.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/values.h"
#include "daso/comm/network.h"
#include "daso/comm/place.h"
#include "daso/comm/slurm.h"

namespace daso::cli {
namespace {

constexpr Seconds kShortestLimit{0.001};
constexpr Seconds kShortestSilence{0.5};

// HOST:PORT, in the form that Address::text() gives.
std::string parse_place(const char* flag, const std::string& text) {
  try {
    return parse_address(text).text();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", flag, error.what()));
  }
}

std::string parse_places(const char* flag, const std::string& text) {
  std::vector<std::string> places;
  for (const std::string& place : split(text, ',')) places.push_back(parse_place(flag, place));
  return join(places, ",");
}

// The first line of a file, or of standard input (-), which belongs to others after it.
std::string token_in(const std::string& file) {
  const Environment environment = this_environment();
  // A rank has been told by its launcher.
  if (find(environment, "DASO_LAUNCHER")) return find(environment, "DASO_JOB_TOKEN").value_or("");
  std::string token;
  if (file == "-") {
    for (char byte = 0; ::read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n';) token += byte;
  } else {
    std::ifstream stream(file);
    std::getline(stream, token);
  }
  require(!token.empty(), "--job-token-file {}: there is no token in the first line", file);
  return token;
}

std::vector<std::string> parse_hosts(const std::string& text) {
  std::vector<std::string> hosts = split(text, ',');
  for (const std::string& host : hosts) {
    // One that begins with a dash would be an option to ssh.
    const bool sound =
        !host.empty() && host.front() != '-' && host.find_first_of(" \t\n'\"") == std::string::npos;
    require(sound, "--hosts '{}': '{}' is no host; write names with commas between, like a,b", text,
            host);
  }
  require(!hosts.empty(), "--hosts names no host; write names with commas between, like a,b");
  return hosts;
}

}  // namespace

void add_token_flags(CLI::App& app, std::string& token) {
  const auto add = [&app](const char* name, const char* type, const char* meaning, auto take) {
    app.add_option_function<std::string>(name, take, meaning)->type_name(type)->group("Ranks");
  };
  add("--job-token", "TEXT", "Keeps processes of other jobs out; also DASO_JOB_TOKEN",
      [&](const std::string& text) { token = text; });
  add("--job-token-file", "FILE", "The same from a file, or - for standard input; ps shows flags",
      [&](const std::string& text) { token = token_in(text); });
}

void add_launch_flags(CLI::App& app, LaunchFlags& flags, Shape shape) {
  const auto add = [&app](const char* name, const char* type, const char* meaning, auto take) {
    return app.add_option_function<std::string>(name, take, meaning)
        ->type_name(type)
        ->group("Ranks");
  };
  add("--nodes", "N", "Nodes; virtual ones of this machine, unless --node-index is given",
      [&](const std::string& text) { flags.nodes = parse_count("--nodes", text, 1); })
      ->default_str(std::to_string(shape.nodes));
  add("--ranks-per-node", "G,...", "Ranks of every node, or of each: 3,1,2",
      [&](const std::string& text) {
        flags.ranks_per_node = parse_counts("--ranks-per-node", text, 1);
      })
      ->default_str(std::to_string(shape.ranks_per_node));
  add("--node-of-rank", "NODE,...", "The node of each rank, instead of the two above: 0,0,1,1",
      [&](const std::string& text) {
        flags.node_of_rank = parse_counts("--node-of-rank", text, 0);
      });
  add("--node-index", "I", "Start only this node's ranks; other machines start the others",
      [&](const std::string& text) { flags.node_index = parse_count("--node-index", text, 0); });
  add("--hosts", "HOST,...", "Start a node's ranks on each of these machines, by ssh",
      [&](const std::string& text) { flags.hosts = parse_hosts(text); });
  add("--ssh", "COMMAND", "How --hosts are reached, like: ssh -p 2222",
      [&](const std::string& text) { flags.ssh = text; })
      ->default_str(flags.ssh);
  add("--cluster", "NAME", "Start the ranks on the nodes of this virtual cluster (docs/testbed.md)",
      [&](const std::string& text) { flags.cluster = text; });
  add("--backend", "NAME", "How ranks talk: tcp, gloo, mpi, or self (a world of one)",
      [&](const std::string& text) {
        flags.backend = parse_choice("--backend", text, {"tcp", "gloo", "mpi", "self"});
      })
      ->default_str(flags.backend);
  add("--rendezvous", "HOST:PORT", "Where the ranks meet; an address of node 0, or of each node",
      [&](const std::string& text) { flags.rendezvous = parse_places("--rendezvous", text); });
  add("--interface", "DEV", "Network device to talk through",
      [&](const std::string& text) { flags.interface = text; });
  add("--ports", "FIRST-LAST", "Ports that ranks call each other at, with --backend tcp",
      [&](const std::string& text) { flags.ports = parse_ports(text); });
  add_token_flags(app, flags.job_token);
  add("--timeout", "SECONDS", "Limit of everything that waits for another rank",
      [&](const std::string& text) {
        flags.limit = parse_seconds("--timeout", text, kShortestLimit);
      })
      ->default_str(fmt::format("{}", flags.limit.count()));
  add("--join-timeout", "SECONDS", "Instead, until the ranks have met for the first time",
      [&](const std::string& text) {
        flags.join_limit = parse_seconds("--join-timeout", text, kShortestLimit);
      });
  add("--grace", "SECONDS", "From asking a rank to end to killing it",
      [&](const std::string& text) { flags.grace = parse_seconds("--grace", text, Seconds(0)); })
      ->default_str(fmt::format("{}", flags.grace.count()));
}

void add_survival_flags(CLI::App& app, SurvivalFlags& flags, LaunchFlags& launch,
                        const std::string& usual) {
  const auto add = [&app](const char* name, const char* type, const char* meaning, auto take) {
    return app.add_option_function<std::string>(name, take, meaning)
        ->type_name(type)
        ->group("Ranks");
  };
  add("--on-failure", "continue|stop", "When a node is lost: go on with the others, or stop",
      [&](const std::string& text) {
        flags.go_on = parse_choice("--on-failure", text, {"continue", "stop"}) == "continue";
      })
      ->default_str(usual);
  add("--restarts", "N", "How often a lost node is started again", [&](const std::string& text) {
    flags.survival.restarts = parse_count("--restarts", text, 0);
  })->default_str(std::to_string(flags.survival.restarts));
  add("--min-nodes", "N", "With fewer nodes the run saves and stops", [&](const std::string& text) {
    flags.survival.min_nodes = parse_count("--min-nodes", text, 1);
  })->default_str(std::to_string(flags.survival.min_nodes));
  add("--standby", "N", "The last N of --nodes wait until another is lost, with their data open",
      [&](const std::string& text) { flags.survival.standby = parse_count("--standby", text, 0); })
      ->default_str(std::to_string(flags.survival.standby));
  add("--witness", "HOST:PORT",
      "Says which half goes on where launchers fall into two: daso witness",
      [&](const std::string& text) { flags.survival.witness = parse_place("--witness", text); });
  add("--join", "HOST:PORT,...", "Join a run at work whose launchers listen there, as --node-index",
      [&](const std::string& text) {
        launch.rendezvous = parse_places("--join", text);
        flags.survival.joins = true;
      });
  add("--silence", "SECONDS", "After which a node that says nothing is lost",
      [&](const std::string& text) {
        flags.survival.silence = parse_seconds("--silence", text, kShortestSilence);
      })
      ->default_str(fmt::format("{}", flags.survival.silence.count()));
}

std::optional<Survival> survival_of(const SurvivalFlags& flags, const LaunchFlags& launch) {
  if (!flags.asked()) {
    require(flags.survival == Survival{},
            "--restarts, --min-nodes, --standby, --witness, --silence and --join are for jobs that "
            "go on when a node is lost, and --on-failure stop ends this one; leave them out");
    return std::nullopt;
  }
  const std::optional<Place> place = place_from(this_environment());
  const bool by_slurm = place && place->launcher == Launcher::kSrun && launch.node_index;
  require(!place || place->launcher == Launcher::kDaso || by_slurm,
          "--on-failure continue needs launchers of daso, which decide who goes on, and {} has "
          "started this rank; --on-failure stop and --resume go on from a checkpoint",
          place ? name_of(place->launcher) : "");
  require(launch.backend == "tcp",
          "--on-failure continue needs --backend tcp: backend {} cannot make connections anew when "
          "a node is lost",
          launch.backend);
  return flags.survival;
}

void take_slurm_nodes(const SurvivalFlags& flags, LaunchFlags& launch) {
  const Environment environment = this_environment();
  const std::optional<Place> place = place_from(environment);
  if (!flags.asked() || !place || place->launcher != Launcher::kSrun) return;
  const SlurmTasks tasks = one_task_a_host(environment);
  const auto nodes = static_cast<int>(tasks.hosts.size());
  require(launch.nodes.value_or(nodes) == nodes,
          "--nodes {} contradicts srun, which has started launchers on {}; leave it out",
          launch.nodes.value_or(0), nodes);
  require(!launch.node_index && launch.hosts.empty(),
          "srun says which node this is; leave --node-index and --hosts out");
  launch.nodes = nodes;
  launch.node_index = tasks.own;
  const std::string step = slurm_step(environment);
  if (launch.rendezvous.empty()) {
    std::vector<std::string> places;
    for (const std::string& host : tasks.hosts) {
      places.push_back(Address{host, slurm_port(step)}.text());
    }
    launch.rendezvous = join(places, ",");
  }
  if (launch.job_token.empty()) launch.job_token = place->job_token;
}

bool can_go_on(const LaunchFlags& launch, Shape shape, bool known_folder) {
  const std::size_t nodes = ranks_of_nodes(launch, shape).size();
  if (launch.backend != "tcp" || nodes == 1 || place_from(this_environment())) return false;
  if (!launch.node_index) return true;
  const bool all_known = split(launch.rendezvous, ',').size() == nodes;
  const bool has_token =
      !launch.job_token.empty() || find(this_environment(), "DASO_JOB_TOKEN").has_value();
  return all_known && has_token && known_folder;
}

void add_world_flags(CLI::App& app, LaunchFlags& flags) {
  app.add_flag("--check-collectives", flags.check_collectives,
               "Compare every operation with the other ranks', not only the first")
      ->group("Ranks");
  app.add_flag("--no-shared-memory", flags.no_shared_memory,
               "Inside a node, too, talk through the backend")
      ->group("Ranks");
}

}  // namespace daso::cli
