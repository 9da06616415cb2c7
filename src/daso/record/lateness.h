// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daso/comm/world.h"

// Who keeps the others waiting. Every few steps the ranks tell each other, in the background, how
// long they worked in each step; time in which a rank was blocked in communication is not its own
// and does not count, so who waits for a late rank is not late.
namespace daso {

// The rank that took longest for a step, and by how much more than the middle one.
struct Late {
  int rank = 0;
  std::int64_t step = 0;
  double seconds = 0;
};

// What is less is not worth a word.
inline constexpr double kLateSeconds = 0.005;
constexpr bool is_late(double seconds) { return seconds >= kLateSeconds; }

// How often a rank was late, and by how much in all.
struct Lateness {
  std::int64_t times = 0;
  double seconds = 0;
};

// What the ranks told each other: the same on all of them.
struct Heard {
  std::optional<Late> late;    // of the last kInterval steps; none where there is nobody else
  std::vector<double> worked;  // seconds per step of each rank; empty where `late` is none
  double largest_word = 0;
};

// Collects the seconds of all ranks. Each collection begins in the background and is looked at
// kInterval steps later, by all ranks at the same step, so nobody waits for it. After every step:
//
//   times.add(step, worked);
//   if (times.due(step)) {
//     const auto heard = times.collect();  // what was told kInterval steps ago
//     times.tell(step);
//   }
class StepTimes {
 public:
  static constexpr std::int64_t kInterval = 8;

  // The world is borrowed. All ranks make theirs together, under one name.
  StepTimes(World& world, const std::string& name);

  void add(std::int64_t step, double worked);
  static bool due(std::int64_t step) { return step % kInterval == 0; }
  // None before the first was told.
  std::optional<Heard> collect();
  // `word` travels along.
  void tell(std::int64_t step, double word = 0);

 private:
  Late latest_in(const at::Tensor& rows) const;

  World& world_;
  Communicator& ranks_;
  std::array<double, kInterval> worked_{};  // by step, modulo
  std::int64_t steps_ = 0;                  // that worked_ holds, of this process
  std::int64_t told_step_ = 0;              // the last one that is being collected
  std::optional<Pending> collecting_;
};

}  // namespace daso
