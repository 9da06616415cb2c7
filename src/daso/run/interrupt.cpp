// SPDX-License-Identifier: Apache-2.0
#include "daso/run/interrupt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "daso/base/environment.h"
#include "daso/comm/place.h"
#include "daso/launch/exit_rule.h"

namespace daso {
namespace {

enum Stage : std::sig_atomic_t { kBefore, kWorking, kOver };

// All that the handler touches. It may neither allocate nor lock, so its words are made before.
struct {
  volatile std::sig_atomic_t noted = 0;
  volatile std::sig_atomic_t stage = kWorking;
  timespec noted_at{};
  int exit_before = 0;
  std::array<std::string, kStopSignals.size()> words_before;
  std::array<std::string, kStopSignals.size()> words;
} state;

double seconds_since(const timespec& start) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec - start.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec - start.tv_nsec);
}

void say(const std::array<std::string, kStopSignals.size()>& words, int signal) {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    if (kStopSignals[i] != signal || words[i].empty()) continue;
    [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, words[i].data(), words[i].size());
  }
}

void on_signal(int signal) {
  if (state.stage == kOver) return;
  if (state.stage == kBefore) {
    say(state.words_before, signal);
    ::_exit(state.exit_before);
  }
  if (state.noted == 0) {
    ::clock_gettime(CLOCK_MONOTONIC, &state.noted_at);
    state.noted = signal;
    say(state.words, signal);
  } else if (seconds_since(state.noted_at) >= kSameSignal.count()) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // ends the process when this function has returned
  }
}

}  // namespace

Interrupt::Interrupt(const InterruptOptions& options) {
  state.noted = 0;
  state.stage = options.exit_before ? kBefore : kWorking;
  state.exit_before = options.exit_before.value_or(0);
  // A drawing on the same terminal is written over.
  const std::string mark = ::isatty(STDERR_FILENO) == 1 ? "\033[Kdaso: note: " : "daso: note: ";
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    const int signal = kStopSignals[i];
    state.words_before[i] =
        !options.says_before
            ? ""
            : fmt::format(
                  "{}told to stop by signal {} before training began: there was nothing "
                  "to save, and the same command begins it\n",
                  mark, signal_text(signal));
    state.words[i] = options.says ? mark + saving_notice(signal) + "\n" : "";
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  // One at a time: the handler reads what it has written itself.
  for (const int signal : kStopSignals) ::sigaddset(&action.sa_mask, signal);
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    ::sigaction(kStopSignals[i], &action, &before_[i]);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    ::sigaction(kStopSignals[i], &before_[i], nullptr);
  }
}

void Interrupt::begin() { state.stage = kWorking; }
void Interrupt::over() { state.stage = kOver; }

std::optional<int> Interrupt::signal() const {
  return state.noted == 0 ? std::nullopt : std::optional<int>(state.noted);
}

InterruptOptions rank_interrupt(int stopped_exit) {
  const Place place = place_from(this_environment()).value_or(Place{});
  return {.exit_before = stopped_exit,
          .says_before = place.rank == 0,
          .says = place.rank == 0 && place.launcher != Launcher::kDaso};
}

}  // namespace daso
