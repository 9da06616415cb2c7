// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daso/comm/world.h"
#include "daso/record/clock_offset.h"

namespace daso {

// Something at one moment of a rank: the end of one of its steps.
struct Mark {
  int rank = 0;
  std::int64_t step = 0;
  std::string text;
};

// The trace of all ranks in one file, on rank 0's clock, as Perfetto and chrome://tracing take it.
// Clocks are compared at the beginning and at the end; in between they drift evenly.
class Trace {
 public:
  // The world is borrowed. All ranks make theirs together.
  explicit Trace(World& world);

  // Collects what the timelines hold; rank 0 writes. All ranks call it together.
  void write(const std::filesystem::path& file, const std::vector<Mark>& marks);

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
