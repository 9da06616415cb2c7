// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "daso/comm/world.h"
#include "daso/record/lateness.h"
#include "daso/record/progress.h"
#include "daso/record/summary.h"
#include "daso/record/time_budget.h"
#include "daso/strategy/strategy.h"

namespace daso {

// Measures, on one rank, all that a Progress and a Summary tell of speed and time: from the clock,
// the world's timeline and the strategy's costs. The trainer and Record have one each. For the
// thread that trains.
class Meter {
 public:
  // All is borrowed. `samples_per_step` are those of all ranks.
  Meter(World& world, const Strategy& strategy, std::int64_t samples_per_step);

  // The clock runs from start() to stop(). Several runs can take turns on one world: what happens
  // while a run's clock stands is not its own. An epoch begins at start().
  void start();
  void stop();

  // After every step.
  void step();
  // From now on a step of all ranks has so many.
  void count_samples(double per_step) { samples_per_step_ = per_step; }
  // The seconds since the last call, in all and without those in which this rank was blocked in
  // communication. StepTimes tells them to the others,
  StepSeconds step_seconds();
  // and this takes what they told each other.
  void hear(const std::optional<Late>& late, const std::vector<double>& worked);

  // `loss` and `test` are the caller's to add.
  Progress progress(const StepInfo& info, int epochs) const;
  TimeSpent spent() const;
  // All that were late: for the trace.
  const std::vector<Late>& late() const { return late_; }

  // Of all ranks: nodes, ranks, seconds, speed, waiting, bytes, the time budget and who was late;
  // the rest is the caller's to add. All ranks call it together, with the clock stopped.
  Summary summary() const;

 private:
  using Counts = std::array<double, kTracks>;
  Counts now_counted() const;
  // Of this run: in turns before, and in the one under way.
  double counted(Track track) const;
  std::array<double, kCauses> waited_by_cause() const;
  double waited() const;
  double seconds() const;

  World& world_;
  const Strategy& strategy_;
  double samples_per_step_;
  bool running_ = false;
  double seconds_ = 0;  // of the turns before
  Counts counted_{};    // in them
  Counts at_start_{};   // what the timeline had counted when this turn began
  Clock::time_point start_;
  Clock::time_point last_;  // when step_seconds() was called last
  double last_wait_ = 0;    // waited() then
  double epoch_wait_ = 0;   // waited() when the epoch began
  std::int64_t steps_ = 0;
  std::int64_t epoch_steps_ = 0;
  std::optional<Late> last_late_;
  std::vector<double> worked_;
  std::vector<Late> late_;
};

}  // namespace daso
