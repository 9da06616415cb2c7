// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace daso {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

inline Seconds since(Clock::time_point start) { return Clock::now() - start; }

// A point in time by which something must have happened. Made from a limit, so that several waits
// in a row share one limit.
class Deadline {
 public:
  explicit Deadline(Seconds limit)
      : when_(Clock::now() + std::chrono::duration_cast<Clock::duration>(limit)) {}
  Clock::time_point when() const { return when_; }
  bool passed() const { return Clock::now() >= when_; }
  Seconds left() const { return std::max(Seconds(0), Seconds(when_ - Clock::now())); }

 private:
  Clock::time_point when_;
};

// LibTorch counts in whole milliseconds and takes 0 for "no limit", so a limit is at least 1 ms.
inline std::chrono::milliseconds whole_milliseconds(Seconds limit) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::ceil<std::chrono::milliseconds>(limit));
}

}  // namespace daso
