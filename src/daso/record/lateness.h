// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/world.h"

// Who keeps the others waiting. Every few steps the ranks tell each other, in the background, how
// long they worked in each step; time in which a rank was blocked in communication is not its own
// and does not count, so who waits for a late rank is not late.
namespace daso {

// The numbers that a rank and its node were started with: those in the world are others in the next
// view.
int rank_id(const World& world, int rank);
int node_id(const World& world, int rank);

// The rank that took longest for a step, and by how much more than the middle one.
struct Late {
  int rank = 0;  // these two as they were started
  int node = 0;
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

// Of one step: all of it, and what of it was not spent blocked in communication.
struct StepSeconds {
  double whole = 0;
  double worked = 0;
};

// What the ranks told each other: the same on all of them.
struct Heard {
  std::optional<Late> late;    // of the steps told of; none where there is nobody else
  std::vector<double> worked;  // seconds per step of each rank; empty where `late` is none
  double largest_word = 0;
};

// Collects the seconds of all ranks, and a word of each. A collection begins in the background and
// is looked at when the next one is due, by all ranks at the same step, so nobody waits for it.
// After every step:
//
//   times.add(step, seconds);
//   if (times.due(step)) {
//     const auto heard = times.collect();  // what was told when it was due before
//     times.tell(step);
//   }
//
// It is due every few steps, so many that a word is heard within kHeardWithin, or within two steps
// where these take longer, and kMostSteps at most. The ranks count alike: by the slowest one's
// steps of the last collection.
class StepTimes {
 public:
  static constexpr std::int64_t kMostSteps = 8;
  static constexpr Seconds kHeardWithin{10};

  // The world is borrowed. All ranks make theirs together, under one name.
  StepTimes(World& world, const std::string& name);

  void add(std::int64_t step, StepSeconds seconds);
  bool due(std::int64_t step) const { return step % interval_ == 0; }
  // None before the first was told.
  std::optional<Heard> collect();
  // `word` travels along.
  void tell(std::int64_t step, double word = 0);

 private:
  Late latest_in(const at::Tensor& rows) const;
  std::vector<double> means_in(const at::Tensor& rows) const;

  World& world_;
  Communicator& ranks_;
  std::array<StepSeconds, kMostSteps> steps_{};  // by step, modulo
  std::int64_t interval_ = 1;                    // from collection to collection; a power of 2
  std::int64_t untold_ = 0;                      // steps since the last one began
  // Of the collection under way: its last step, how many they are, and whether this process has
  // just begun.
  std::int64_t told_step_ = 0;
  std::int64_t told_ = 0;
  bool told_first_ = true;
  std::optional<Pending> collecting_;
};

}  // namespace daso
