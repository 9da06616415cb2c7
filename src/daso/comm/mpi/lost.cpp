// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/mpi/lost.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "daso/base/error.h"

namespace daso::mpi {

void leave_as_lost(const std::string& what) {
  // One write: the lines of several ranks share one pipe and must not mix.
  const std::string line = fmt::format("{}{}\n", kLostPeerMark, what);
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  std::_Exit(kExitPeer);
}

std::string late_text(const std::string& operation, Seconds limit, int rank) {
  return fmt::format("{} over mpi did not finish within {:g} s on rank {}", operation,
                     limit.count(), rank);
}

Watchdog::Watchdog(std::string reason, Seconds limit)
    : thread_([this, reason = std::move(reason), deadline = Deadline(limit)] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_until(lock, deadline.when(), [this] { return done_; })) return;
        leave_as_lost(reason);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
}

}  // namespace daso::mpi
