// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"

// A cluster of virtual nodes (bench/cluster/daso-cluster makes them), as far as a launcher enters
// it. A node is a set of namespaces of the kernel.
namespace daso {

struct Namespaces {
  FileDescriptor network;
  FileDescriptor host_name;
  FileDescriptor ipc;
  FileDescriptor mounts;
  FileDescriptor processes;
};

struct ClusterNode {
  std::string host;
  std::string address;  // numeric
  Namespaces namespaces;
};

// The first `nodes` nodes of a cluster that is up. Throws ConfigError where there is no such
// cluster, it has fewer nodes, one of them is stopped, or we are not root.
std::vector<ClusterNode> open_cluster(const std::string& name, int nodes);

// As long as it lives, the calling thread makes its sockets, and its threads, in another network.
class NetworkVisit {
 public:
  explicit NetworkVisit(const FileDescriptor& network);
  NetworkVisit(const NetworkVisit&) = delete;
  NetworkVisit& operator=(const NetworkVisit&) = delete;
  ~NetworkVisit();

 private:
  FileDescriptor home_;
};

// fork() whose child is a process of other PID namespaces as well, seen from here like any child.
// For a process with one thread.
pid_t fork_into(const FileDescriptor& processes);

// The rest of the way, for that child: all namespaces but that of processes, then the folder. Only
// async-signal-safe calls; false with errno where it fails.
bool enter(const Namespaces& namespaces, const char* folder);

}  // namespace daso
