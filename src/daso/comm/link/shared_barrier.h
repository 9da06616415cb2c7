// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daso/comm/alarm.h"
#include "daso/comm/link/shared_memory.h"

namespace daso {

// What the ranks of a barrier see of it; lies at the start of their shared memory, zeroed.
struct BarrierState {
  alignas(64) std::uint64_t arrivals;  // over all ranks and all meetings
  alignas(64) std::uint32_t round;     // the last meeting to which all have come; slept on
  std::uint32_t sleepers;
};

// A place where ranks wait for each other, again and again: awake for a moment, then asleep. Two
// ranks that the scheduler put on one core would take it from each other by staying awake.
class SharedBarrier {
 public:
  enum class Outcome { kAll, kRaised, kLate, kLost };

  // The memory is borrowed, and all ranks of it have signed.
  SharedBarrier(const SharedMemory& memory, int rank, int ranks);

  // The number of the next meeting, the same for all ranks.
  std::uint64_t next() const { return round_ + 1; }

  // Waits until all ranks have come, the alarm is raised, a rank has died, or the
  // deadline has passed. What a rank wrote before it came, all can read afterwards.
  Outcome meet(const Alarm& alarm, const Deadline& deadline);
  std::optional<int> lost() const { return lost_; }  // the rank of kLost

 private:
  bool all_came() const;
  bool arrive();
  Outcome sleep(const Alarm& alarm, const Deadline& deadline);
  std::optional<int> find_lost() const;

  const SharedMemory& memory_;
  BarrierState& state_;
  const int rank_;
  const int ranks_;
  std::uint64_t round_ = 0;
  std::optional<int> lost_;
};

}  // namespace daso
