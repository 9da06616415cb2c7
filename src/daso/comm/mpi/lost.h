// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "daso/base/seconds.h"

// MPI cannot survive a lost rank: calls that wait for it never come back. So the process ends with
// the reason, and mpirun ends the others.
namespace daso::mpi {

// Prints `daso: lost peer: <what>` as one line and leaves by _Exit(kExitPeer).
[[noreturn]] void leave_as_lost(const std::string& what);

// The line for an operation that is late; `rank` is ours.
std::string late_text(const std::string& operation, Seconds limit, int rank);

// Guards a blocking call of MPI: leaves as lost, for the reason given, if it is still alive when
// the limit passes.
class Watchdog {
 public:
  Watchdog(std::string reason, Seconds limit);
  ~Watchdog();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::jthread thread_;
};

}  // namespace daso::mpi
