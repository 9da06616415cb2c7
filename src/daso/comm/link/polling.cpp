// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/polling.h"

#include <thread>

#include "daso/base/error.h"
#include "daso/base/while_waiting.h"

namespace daso {
namespace {

constexpr int kTriesAtFirst = 20;
// A pause is a small part of the time that has passed: it makes nothing much later, and a long wait
// costs no processor.
constexpr double kPauseShare = 1.0 / 16;
constexpr Seconds kShortestPause{0.00002};
constexpr Seconds kLongestPause{0.001};

[[noreturn]] void give_up(const Wait& wait) {
  const std::string late = fmt::format("not done within {} s", wait.limit.count());
  // Alone there is nobody to call the roll of.
  if (!wait.guard.lookout) throw PeerError(fmt::format("{}: {}", wait.call.what, late));
  throw_failure(wait.call, wait.guard.lookout->ring(late));
}

}  // namespace

void poll(const Wait& wait, const std::function<bool()>& is_done) {
  for (int tries = 0; tries < kTriesAtFirst; ++tries) {
    if (is_done()) return;
  }
  Clock::time_point next_look = WhileWaiting::pause(wait.deadline.when());
  for (const auto start = Clock::now(); !is_done();) {
    if (const auto failure = wait.guard.alarm->raised()) throw_failure(wait.call, *failure);
    if (wait.deadline.passed()) give_up(wait);
    if (Clock::now() >= next_look) {
      WhileWaiting::look();
      next_look = WhileWaiting::pause(wait.deadline.when());
    }
    std::this_thread::sleep_for(
        std::clamp(kPauseShare * since(start), kShortestPause, kLongestPause));
  }
}

}  // namespace daso
