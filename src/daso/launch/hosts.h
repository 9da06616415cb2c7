// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/launch/launch_flags.h"

// A job on several machines from one command: for each host an ssh that starts the launcher of its
// node there, by the same command line. The client here stays outside of the job: it passes on what
// the hosts print, tells them the signals that it gets, and ends with the most serious of their
// exit codes.
//
// ssh passes no signals on and lets a command live when its client is gone. So the launchers over
// there read their standard input: a byte is a signal, its end means that nobody waits for them.
namespace daso {

// True for the client; the launchers over there have a node index.
inline bool starts_hosts(const LaunchFlags& flags) {
  return !flags.hosts.empty() && !flags.node_index;
}

// What every host needs to know besides its number.
struct HostsPlan {
  std::string program;  // both are the same on all hosts
  std::string folder;
  std::vector<std::string> arguments;  // of this command, without the program's name
  std::string rendezvous;              // empty: the arguments say
  std::string job_token;               // likewise
};

// The program that reaches a host and its words, the host's own command line among them. `columns`
// is the width of a terminal that this host's ranks may draw on, 0 for none.
std::vector<std::string> host_call(const LaunchFlags& flags, const HostsPlan& plan, int node,
                                   int columns);

// Starts the job and waits for its end. Returns the job's exit code.
int launch_on_hosts(const LaunchFlags& flags, Shape shape,
                    const std::vector<std::string>& arguments);

}  // namespace daso
