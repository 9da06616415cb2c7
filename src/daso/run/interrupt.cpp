// SPDX-License-Identifier: Apache-2.0
#include "daso/run/interrupt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "daso/base/environment.h"
#include "daso/comm/place.h"
#include "daso/launch/exit_rule.h"

namespace daso {
namespace {

enum Stage { kBefore, kWorking, kOver };

// All that the handler touches, in whichever thread it runs: it may neither allocate nor lock.
std::atomic<int> stage{kWorking};
std::atomic<int> noted{0};              // the first signal
std::atomic<std::int64_t> noted_at{0};  // on the clock below; 0: none came
std::atomic<int> code_before{0};
std::atomic<const StopWords*> words{nullptr};

std::int64_t nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void say(const std::string& line) {
  [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, line.data(), line.size());
}

std::size_t index_of(int signal) {
  std::size_t index = 0;
  while (kStopSignals[index] != signal) ++index;
  return index;
}

void on_signal(int signal) {
  const int error = errno;  // of what is interrupted
  const StopWords& own = *words;
  if (stage == kOver) return;
  if (stage == kBefore) {
    say(own.before[index_of(signal)]);
    ::_exit(code_before);
  }
  const std::int64_t now = nanoseconds();
  std::int64_t first = 0;
  if (noted_at.compare_exchange_strong(first, now)) {
    noted = signal;
    say(own.noted[index_of(signal)]);
  } else if (Seconds(1e-9 * static_cast<double>(now - first)) >= kSameSignal) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // ends the process when this function has returned
  }
  errno = error;
}

}  // namespace

Interrupt::Interrupt(const InterruptOptions& options) {
  // A drawing on the same terminal is written over.
  const std::string mark = ::isatty(STDERR_FILENO) == 1 ? "\033[Kdaso: note: " : "daso: note: ";
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    const int signal = kStopSignals[i];
    if (options.says_before) {
      words_.before[i] = fmt::format(
          "{}told to stop by signal {} before training began: there was nothing to save, and the "
          "same command begins it\n",
          mark, signal_text(signal));
    }
    if (options.says) words_.noted[i] = mark + saving_notice(signal) + "\n";
  }
  stage = options.exit_before ? kBefore : kWorking;
  code_before = options.exit_before.value_or(0);
  noted = 0;
  noted_at = 0;
  words = &words_;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    ::sigaction(kStopSignals[i], &action, &before_[i]);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    ::sigaction(kStopSignals[i], &before_[i], nullptr);
  }
}

void Interrupt::begin() { stage = kWorking; }
void Interrupt::over() { stage = kOver; }

std::optional<int> Interrupt::signal() const {
  const int first = noted;
  return first == 0 ? std::nullopt : std::optional(first);
}

InterruptOptions rank_interrupt(int stopped_exit) {
  const Place place = place_from(this_environment()).value_or(Place{});
  return {.exit_before = stopped_exit,
          .says_before = place.rank == 0,
          .says = place.rank == 0 && place.launcher != Launcher::kDaso};
}

}  // namespace daso
