// SPDX-License-Identifier: Apache-2.0
#include "daso/base/process_limits.h"

#include <sys/resource.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "daso/base/error.h"

namespace daso {
namespace {

// "20", or "unlimited": then a container or the machine has a limit of its own.
std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit);
}

// How many threads of this number can be there at once.
int startable(int number) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::vector<std::jthread> threads;
  try {
    while (static_cast<int>(threads.size()) < number) {
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over; });
      });
    }
  } catch (const std::system_error&) {
    // As many as it has become.
  }
  const auto started = static_cast<int>(threads.size());
  {
    const std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_all();
  return started;
}

}  // namespace

void require_open_files(int needed, std::string_view who) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(needed);
  if (limit.rlim_cur >= wanted) return;
  require(limit.rlim_max >= wanted,
          "{} needs up to {} open files and connections, the limit is {}; raise it (ulimit -n {})",
          who, needed, limit.rlim_max, needed);
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void require_threads(int needed, std::string_view who) {
  const int found = startable(needed);
  if (found == needed) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NPROC, &limit);
  throw ConfigError(fmt::format(
      "{} needs up to {} threads, only {} could be started; raise the limit on processes and "
      "threads (ulimit -u is {} for all of this user, a container may have its own)",
      who, needed, found, limit_text(limit.rlim_cur)));
}

}  // namespace daso
