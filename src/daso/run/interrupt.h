// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <optional>
#include <string>

#include "daso/launch/stop_signals.h"

namespace daso {

// What a process does at a signal to stop.
struct InterruptOptions {
  // Until begin() there is nothing to save: the process ends with this code. None: signals are
  // noted from the first moment.
  std::optional<int> exit_before;
  bool says_before = false;  // that it does so
  bool says = false;         // that a signal is noted, and what follows
};

// Lines for standard error, made before a handler needs them; by signal, as in kStopSignals.
struct StopWords {
  std::array<std::string, kStopSignals.size()> before;
  std::array<std::string, kStopSignals.size()> noted;
};

// While it lives, signals to stop (launch/stop_signals.h) are noted instead of ending the process.
// A second one, that is not one with the first, ends it. One object at a time, since handlers
// belong to the process.
class Interrupt {
 public:
  explicit Interrupt(const InterruptOptions& options = {});
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  void begin();  // work that can be saved
  void over();   // all is saved: from now on signals change nothing

  std::optional<int> signal() const;  // the first that came

 private:
  StopWords words_;
  std::array<struct sigaction, kStopSignals.size()> before_{};
};

// For a rank that trains. Before that its first rank tells that there was nothing to save; later
// our own launcher tells what happens, and under any other the first rank.
InterruptOptions rank_interrupt(int stopped_exit);

}  // namespace daso
