// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/shared_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <atomic>
#include <climits>
#include <ctime>

#include "daso/base/error.h"
#include "daso/base/while_waiting.h"

namespace daso {
namespace {

constexpr Seconds kSlice{0.05};  // of sleep; bad news is looked for after each
constexpr int kPauses = 32;      // before sleeping; about a microsecond

using Word = std::atomic_ref<std::uint32_t>;
using Counter = std::atomic_ref<std::uint64_t>;

void pause_briefly() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps while the word has this value, for no longer than the limit.
void futex_wait(std::uint32_t& word, std::uint32_t value, Seconds limit) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count();
  const std::timespec time{.tv_sec = nanoseconds / 1'000'000'000,
                           .tv_nsec = nanoseconds % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake_all(std::uint32_t& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

BarrierState& state_in(const SharedMemory& memory) {
  return *reinterpret_cast<BarrierState*>(memory.bytes().data());
}

}  // namespace

SharedBarrier::SharedBarrier(const SharedMemory& memory, int rank, int ranks)
    : memory_(memory), state_(state_in(memory)), rank_(rank), ranks_(ranks) {
  DASO_ASSERT(memory.bytes().size() >= sizeof(BarrierState));
}

SharedBarrier::Outcome SharedBarrier::meet(const Alarm& alarm, const Deadline& deadline) {
  ++round_;
  if (arrive()) return Outcome::kAll;
  for (int pause = 0; pause < kPauses; ++pause) {
    if (all_came()) return Outcome::kAll;
    pause_briefly();
  }
  return sleep(alarm, deadline);
}

bool SharedBarrier::all_came() const {
  return Word(state_.round).load(std::memory_order_acquire) == static_cast<std::uint32_t>(round_);
}

// True for the last one to come, who lets the others go.
bool SharedBarrier::arrive() {
  const std::uint64_t before = Counter(state_.arrivals).fetch_add(1, std::memory_order_acq_rel);
  const bool last = before + 1 == round_ * static_cast<std::uint64_t>(ranks_);
  if (last) {
    // In this order for both sides, or one would sleep on unseen: they say that they sleep and then
    // look at the round.
    Word(state_.round).store(static_cast<std::uint32_t>(round_));
    if (Word(state_.sleepers).load() > 0) futex_wake_all(state_.round);
  }
  return last;
}

SharedBarrier::Outcome SharedBarrier::sleep(const Alarm& alarm, const Deadline& deadline) {
  while (!all_came()) {
    Word(state_.sleepers).fetch_add(1);
    futex_wait(state_.round, static_cast<std::uint32_t>(round_ - 1),
               std::min(kSlice, deadline.left()));
    Word(state_.sleepers).fetch_sub(1);
    if (all_came()) break;
    lost_ = find_lost();
    if (all_came()) break;  // before that rank ended: until all have come nobody may
    if (alarm.raised()) return Outcome::kRaised;
    if (lost_) return Outcome::kLost;
    if (deadline.passed()) return Outcome::kLate;
    WhileWaiting::look();
  }
  return Outcome::kAll;
}

std::optional<int> SharedBarrier::find_lost() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_ && !memory_.has_signed(rank)) return rank;
  }
  return std::nullopt;
}

}  // namespace daso
