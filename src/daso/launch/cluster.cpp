// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/cluster.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

using nlohmann::json;

constexpr const char* kState = "/run/daso-cluster";

json read_state(const std::string& name) {
  require(!name.empty() && name.find('/') == std::string::npos, "'{}' is no name of a cluster",
          name);
  const std::string path = fmt::format("{}/{}/cluster.json", kState, name);
  std::ifstream file(path);
  require(file.is_open(),
          "there is no cluster '{}' ({} is missing); make it: bench/cluster/daso-cluster up --name "
          "{} --nodes N",
          name, path, name);
  return json::parse(file);
}

FileDescriptor open_namespace(pid_t pid, const char* kind) {
  const std::string path = fmt::format("/proc/{}/ns/{}", pid, kind);
  FileDescriptor found(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  require(found.open() || (errno != EACCES && errno != EPERM),
          "only root may start ranks on a cluster; become root");
  return found;
}

ino_t number_of(const FileDescriptor& file) {
  struct stat status {};
  return file.open() && ::fstat(file.get(), &status) == 0 ? status.st_ino : 0;
}

ClusterNode open_node(const json& stored, const std::string& what) {
  const auto pid = stored.at("pid").get<pid_t>();
  ClusterNode node{.host = stored.at("host"),
                   .address = stored.at("address"),
                   .namespaces = {.network = open_namespace(pid, "net"),
                                  .host_name = open_namespace(pid, "uts"),
                                  .ipc = open_namespace(pid, "ipc"),
                                  .mounts = open_namespace(pid, "mnt"),
                                  .processes = open_namespace(pid, "pid")}};
  // Should the node have ended, its process number may stand for another process by now.
  require(number_of(node.namespaces.network) == stored.at("network").get<ino_t>() &&
              node.namespaces.processes.open(),
          "{} is stopped; take the cluster down and up again", what);
  return node;
}

}  // namespace

std::vector<ClusterNode> open_cluster(const std::string& name, int nodes) {
  std::vector<ClusterNode> opened;
  try {
    const json state = read_state(name);
    const json& stored = state.at("nodes");
    require(nodes <= static_cast<int>(stored.size()),
            "{} nodes are asked for, cluster '{}' has {}; ask for fewer, or make a larger cluster",
            nodes, name, stored.size());
    for (int i = 0; i < nodes; ++i) {
      opened.push_back(open_node(stored.at(static_cast<std::size_t>(i)),
                                 fmt::format("node {} of cluster '{}'", i, name)));
    }
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format(
        "the state of cluster '{}' cannot be understood ({}); take it down and up again", name,
        error.what()));
  }
  return opened;
}

NetworkVisit::NetworkVisit(const FileDescriptor& network)
    : home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  if (!home_.open() || ::setns(network.get(), CLONE_NEWNET) != 0) {
    throw Error(fmt::format("cannot enter the network of a node: {}", std::strerror(errno)));
  }
}

NetworkVisit::~NetworkVisit() {
  // A process that does not know in which network it is must not go on.
  if (::setns(home_.get(), CLONE_NEWNET) != 0) std::abort();
}

pid_t fork_into(const FileDescriptor& processes) {
  const FileDescriptor home(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
  if (!home.open() || ::setns(processes.get(), CLONE_NEWPID) != 0) return -1;
  const pid_t pid = ::fork();
  if (pid == 0) return pid;
  const int error = errno;
  DASO_ASSERT(::setns(home.get(), CLONE_NEWPID) == 0);
  errno = error;
  return pid;
}

bool enter(const Namespaces& namespaces, const char* folder) {
  return ::setns(namespaces.network.get(), CLONE_NEWNET) == 0 &&
         ::setns(namespaces.host_name.get(), CLONE_NEWUTS) == 0 &&
         ::setns(namespaces.ipc.get(), CLONE_NEWIPC) == 0 &&
         ::setns(namespaces.mounts.get(), CLONE_NEWNS) == 0 && ::chdir(folder) == 0;
}

}  // namespace daso
