// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/reach.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daso/base/error.h"
#include "daso/comm/socket_address.h"

namespace daso {
namespace {

constexpr std::size_t kAtOnce = 64;  // a job may have more ranks than a process has descriptors

// A connection that is being made, or has failed.
struct Attempt {
  FileDescriptor socket;
  std::string problem = "nothing answers";
  bool pending = false;

  void end(int error) {
    pending = false;
    problem = error == 0 ? "" : std::strerror(error);
  }
};

Attempt begin(const Address& door) {
  const SocketAddress where(door);
  Attempt attempt;
  attempt.socket =
      FileDescriptor(::socket(where.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (attempt.socket.open() && ::connect(attempt.socket.get(), where.get(), where.bytes()) == 0) {
    attempt.end(0);
  } else if (errno == EINPROGRESS) {
    attempt.pending = true;
  } else {
    attempt.end(errno);
  }
  return attempt;
}

void await(std::vector<Attempt>& attempts, const Deadline& deadline) {
  while (!deadline.passed()) {
    std::vector<pollfd> waiting;
    std::vector<Attempt*> whose;
    for (Attempt& attempt : attempts) {
      if (!attempt.pending) continue;
      waiting.push_back({.fd = attempt.socket.get(), .events = POLLOUT, .revents = 0});
      whose.push_back(&attempt);
    }
    if (waiting.empty()) return;
    const auto left = static_cast<int>(whole_milliseconds(deadline.left()).count());
    if (::poll(waiting.data(), waiting.size(), left) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      int error = 0;
      socklen_t bytes = sizeof error;
      ::getsockopt(waiting[i].fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
      whose[i]->end(error);
    }
  }
}

}  // namespace

std::vector<std::string> try_doors(const std::vector<Address>& doors, Seconds limit) {
  const Deadline deadline(limit);
  std::vector<std::string> problems;
  for (std::size_t from = 0; from < doors.size(); from += kAtOnce) {
    std::vector<Attempt> attempts;
    for (std::size_t i = from; i < std::min(doors.size(), from + kAtOnce); ++i) {
      attempts.push_back(begin(doors[i]));
    }
    await(attempts, deadline);
    for (const Attempt& attempt : attempts) problems.push_back(attempt.problem);
    // Those that are left are then nobody's fault that we know of.
    if (deadline.passed()) break;
  }
  problems.resize(doors.size());
  return problems;
}

std::optional<std::string> broken_pair(const std::vector<Member>& members,
                                       const std::vector<int>& ranks, int own, Seconds limit) {
  const auto member = [&](int rank) -> const Member& {
    return members.at(static_cast<std::size_t>(rank));
  };
  std::vector<int> others;
  std::vector<Address> doors;
  for (const int rank : ranks) {
    if (rank == own || !member(rank).door) continue;
    others.push_back(rank);
    doors.push_back(*member(rank).door);
  }
  const std::vector<std::string> problems = try_doors(doors, limit);
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (problems[i].empty()) continue;
    return fmt::format(
        "{} cannot reach {} at {}: {}; let all TCP through between these machines, or that of some "
        "ports with --backend tcp --ports FIRST-LAST, or choose another network with --interface "
        "DEV",
        member(own).text(own), member(others[i]).text(others[i]), doors[i].text(), problems[i]);
  }
  return std::nullopt;
}

}  // namespace daso
