// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daso/comm/world.h"
#include "daso/record/lateness.h"

namespace daso {

// What another rank's clock shows when rank 0's shows 0, and how far that may be off.
struct ClockOffset {
  double seconds = 0;
  double error = 0;  // half of the quickest round trip
};

// Of all ranks, on all ranks. Rank 0 asks each in turn for its time, several times; the quickest
// answer counts, as the network delayed it least. All ranks call it together.
std::vector<ClockOffset> clock_offsets(World& world);

// The trace of all ranks in one file, on rank 0's clock, as Perfetto and chrome://tracing take it.
// Clocks are compared at the beginning and at the end; in between they drift evenly.
class Trace {
 public:
  // The world is borrowed. All ranks make theirs together.
  explicit Trace(World& world);

  // Collects what the timelines hold; rank 0 writes. Who was late is marked at the end of that
  // step. All ranks call it together. A file that cannot be written is worth a warning, no more:
  // the run has trained well.
  void write(const std::filesystem::path& file, const std::vector<Late>& late);

 private:
  // Microseconds of rank 0's clock since the trace began.
  double moment(Clock::time_point time) const;

  World& world_;
  const double begin_;  // on this rank's clock
  const std::vector<ClockOffset> first_;
  double origin_ = 0;  // where rank 0's clock stood when the trace began
  double end_ = 0;
  std::vector<ClockOffset> last_;
};

}  // namespace daso
