// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <string>

#include "daso/base/seconds.h"

// How a job is told to stop, for launchers and ranks alike.
namespace daso {

// They mean the same. SIGUSR1 is what batch systems can send well before their time is over.
inline constexpr std::array<int, 3> kStopSignals = {SIGINT, SIGTERM, SIGUSR1};

// Signals that come within this time are one: timeout(1) sends its signal to its child and then to
// the child's group. Only a later one means "at once".
inline constexpr Seconds kSameSignal{1};

// What happens after the first one: of a job that saves what it has, of a node that leaves such a
// job, and of any other.
std::string saving_notice(int signal);
std::string leaving_notice(int signal, int node);
std::string ending_notice(int signal);

}  // namespace daso
