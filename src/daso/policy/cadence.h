// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

// When an exchange starts and when it is merged (algorithm.md 3, steps 4 and 5).
namespace daso {

// Beyond the end of any run, and exact in double: the `last` of an epoch without end, and the
// longest period that is told apart.
inline constexpr std::int64_t kEndless = std::int64_t{1} << 53;

struct Cadence {
  int skip = 4;  // steps from one start to the next, at least 1
  int wait = 1;  // steps from start to merge, 1 ... skip
  bool operator==(const Cadence&) const = default;
};

// Throws ConfigError.
void validate(const Cadence& cadence);

// A step that has just been done. Equal on all ranks, known without talking to any.
struct StepInfo {
  int epoch = 0;                    // counts from 0
  std::int64_t step = 0;            // t: of the run, from 0
  std::int64_t batch = 0;           // b: of the epoch, from 0
  std::int64_t last = 0;            // the epoch's last b
  double rate = 0;                  // learning rate of this step, first parameter group
  std::optional<double> next_rate;  // of the step after it; none after the run's last
};

// A new round of `skip` steps begins: the first of the epoch, or the one before is over. The last
// step of an epoch starts nothing, since the agreement is due.
constexpr bool starts_at(const StepInfo& info, std::int64_t last_start, std::int64_t skip) {
  return info.batch != info.last && (info.batch == 0 || info.batch - last_start >= skip);
}

// Nothing stays in flight across epochs.
constexpr bool merge_is_due(const StepInfo& info, std::int64_t started, int wait) {
  return info.step - started == wait || info.batch == info.last;
}

}  // namespace daso
