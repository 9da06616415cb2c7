// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/seconds.h"
#include "daso/comm/network.h"
#include "daso/comm/world_options.h"
#include "daso/launch/signal_inbox.h"

// Starts the ranks of a job as processes and looks after them to the end. Knows nothing of
// LibTorch.
//
//   launch_flags   the flags that every command with ranks has, and what follows from them
//   ranks          a command on ranks: joins the world that this process was started for, or starts
//                  one
//   launch_plan    which ranks, and what each of them is told; cluster: on which virtual node
//   job            everything around the ranks: the store where they meet (job_store), the signals
//                  that come to us (signal_inbox), what they print (output), the process that ends
//                  them if we are killed (guardian)
//   child_process, supervisor   start processes, and wait for their output and their ends
//   mpirun         the same through Open MPI's mpirun
//   survival       the same for a job that goes on when nodes are lost: view_keeper takes part in
//                  the decisions about views, node_lives says when a node is started again
//   hosts          one launcher on each of several machines, by ssh
//   exit_rule      from the ends of the ranks to the end of the job
namespace daso {

// How a job goes on when nodes are lost (docs/membership.md).
struct Survival {
  int restarts = 10;    // of each node
  int min_nodes = 1;    // with fewer members the run stops
  int standby = 0;      // the last nodes, so many, wait until one of the others is lost
  Seconds silence{5};   // after which a node that says nothing is lost
  bool joins = false;   // the other launchers are at work already
  std::string witness;  // HOST:PORT; says which half goes on where launchers fall into two
  std::string views;    // else a folder does, if all launchers see it; empty: none
  bool operator==(const Survival&) const = default;
};

// What to start and where. See docs/cluster.md for several machines.
struct LaunchOptions {
  std::vector<int> ranks_per_node = {1};  // one entry a node
  std::optional<int> node_index;  // start only this node's ranks; other launchers start the rest
  std::string rendezvous;         // HOST:PORT; empty: a free port of this machine
  Ports ports;                    // that ranks are called at, for those that ask; any: not told
  std::string interface;          // device whose address the store listens on; empty: see below
  std::string cluster;            // start the ranks on the nodes of this virtual cluster
  SignalSource signal_source = SignalSource::kSystem;  // what tells the launcher to end
  std::string job_token;                               // empty: made up here
  std::string backend = kUsualBackend;                 // mpi goes through mpirun
  Seconds limit{60};                                   // for what the launcher itself waits for
  Seconds grace{5};                  // from asking a rank to end (SIGTERM) to killing it
  Seconds time_to_save{0};           // instead, if longer, after a signal that came to us
  int stopped_exit = kExitStopped;   // of a rank that was stopped and can go on
  bool keep_survivors = false;       // a lost rank does not end the others
  std::optional<Survival> survival;  // none: a lost rank ends the job
  std::string replay;                // the run that the ranks are to do again; empty: none
  std::string replay_out;            // where its files go
  std::vector<std::string> command;  // program and arguments
  // Only one rank prints at a time, whichever is the first just now: its standard output is the
  // job's, as otherwise rank 0's.
  bool one_voice = false;
  // Instead of the limit, until it has found node 0's launcher.
  std::optional<Seconds> join_limit;
  // The width of a terminal that rank 0 may draw on: its output then passes as it is, without a
  // prefix, and a variable of this name tells it the width.
  std::optional<int> columns;
};
inline constexpr const char* kColumnsVariable = "DASO_COLUMNS";

// Starts the ranks as processes of this machine, passes their output and our signals on, hosts
// their store and waits for all of them. Returns the exit code of the job:
//   a rank ended by a signal: 3, and its rank and signal are named;
//   otherwise the first code that is neither 0 nor 3; otherwise 3 if any rank said 3; otherwise 0;
//   but a job that was told to stop, and can go on, has the ranks' code for that.
// After the first failure the others learn of it through the store and have a second to end by
// themselves, then SIGTERM, then after the grace time SIGKILL. No process and no port stays behind,
// also when the launcher itself is killed. Where another node's launcher is gone the job ends
// with 3. Output that could not be passed on makes a 0 a 1. SIGTSTP (Ctrl-Z) stops ranks and
// launcher until SIGCONT.
//
// With all ranks on this machine (no node_index) the store listens on loopback only; on a cluster,
// on the address of its first node.
int launch(const LaunchOptions& options);

// The same for a job with options.survival, which goes on when nodes are lost: a node that loses a
// rank leaves as a whole and is started again, while the others decide on a view without it
// (view_keeper.h). Returns 0 if the run was finished, whoever died meanwhile.
int launch_surviving(const LaunchOptions& options);

}  // namespace daso
