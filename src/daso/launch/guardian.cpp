// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/guardian.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/launch/child_process.h"
#include "daso/launch/stop_signals.h"

namespace daso {
namespace {

constexpr char kAllIsWell = '.';
constexpr auto kLookEvery = std::chrono::milliseconds(20);

// By the one call, or where that is missing or forbidden (old kernels, some containers) one by one.
void close_all(unsigned first, unsigned last) {
  if (::close_range(first, last, 0) == 0) return;
  const auto most = static_cast<unsigned>(std::max(0L, ::sysconf(_SC_OPEN_MAX)));
  for (unsigned file = first; file <= std::min(last, most); ++file) {
    ::close(static_cast<int>(file));
  }
}

// Keeps nothing of the launcher's but the pipe: neither its output, which a reader expects to end
// with it, nor its terminal.
void detach(int pipe) {
  ::setsid();
  ::prctl(PR_SET_NAME, "daso-guardian");
  for (const int signal : kStopSignals) ::signal(signal, SIG_IGN);
  for (const int signal : {SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  const auto first = static_cast<unsigned>(STDERR_FILENO + 1);
  const auto kept = static_cast<unsigned>(pipe);
  if (kept > first) close_all(first, kept - 1);
  close_all(kept + 1, ~0U);
}

struct Watched {
  std::vector<pid_t> groups;
  bool well = false;  // the launcher said so
};

Watched read_until_end(int pipe) {
  Watched watched;
  pid_t number = 0;
  std::array<char, 512> bytes{};
  while (true) {
    const ssize_t count = ::read(pipe, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return watched;
    for (const char c : std::string_view(bytes.data(), static_cast<std::size_t>(count))) {
      if (c == kAllIsWell) {
        watched.well = true;
        return watched;  // the last that the launcher says
      } else if (c == '\n') {
        if (number > 1) watched.groups.push_back(number);  // a kill of group 1 or 0 means others
        number = 0;
      } else {
        number = 10 * number + (c - '0');
      }
    }
  }
}

// The groups that have a process which has not ended; none where nobody can know. Where nobody
// collects what has ended, as under the first process of many containers, kill() finds it for good.
std::optional<std::set<pid_t>> groups_at_work() {
  std::set<pid_t> groups;
  try {
    for (const std::string& name : names_in("/proc")) {
      std::ifstream file("/proc/" + name + "/stat");
      std::string text;
      if (!std::getline(file, text)) continue;  // it is no process, or gone by now
      // 12 (name) S 11 12 ...: state, parent and group follow the name, which may hold anything.
      std::istringstream rest(text.substr(text.rfind(')') + 1));
      char state = 0;
      pid_t parent = 0;
      pid_t group = 0;
      if (rest >> state >> parent >> group && state != 'Z' && state != 'X') groups.insert(group);
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return groups;
}

void end_groups(std::vector<pid_t> groups, Seconds grace) {
  for (const pid_t group : groups) ::kill(-group, SIGTERM);
  const Deadline deadline(grace);
  while (!deadline.passed()) {
    std::erase_if(groups, [](pid_t group) { return ::kill(-group, 0) != 0; });
    if (groups.empty()) return;
    if (const std::optional<std::set<pid_t>> at_work = groups_at_work()) {
      std::erase_if(groups, [&](pid_t group) { return !at_work->contains(group); });
    }
    if (groups.empty()) return;
    std::this_thread::sleep_for(kLookEvery);  // nobody tells a process of the end of strangers
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
}

}  // namespace

Guardian::Guardian(Seconds grace) {
  Pipe pipe = make_pipe();
  ::fcntl(pipe.read.get(), F_SETFL, 0);  // the guardian waits on it
  pid_ = ::fork();
  if (pid_ < 0) throw Error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (pid_ == 0) {
    detach(pipe.read.get());
    const Watched watched = read_until_end(pipe.read.get());
    if (!watched.well) end_groups(watched.groups, grace);
    ::_exit(EXIT_SUCCESS);
  }
  pipe_ = std::move(pipe.write);
}

Guardian::~Guardian() {
  [[maybe_unused]] const ssize_t told = ::write(pipe_.get(), &kAllIsWell, 1);
  pipe_.close();
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace daso
