// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "verify/verdict.h"
#include "verify/wire_bound.h"

namespace daso::verify {

// Compares what one rank does and holds with what a golden case expects, step by step.
class TrainingCheck {
 public:
  // The case is borrowed.
  TrainingCheck(const TrainingCase& training, Wire wire, int rank);

  // After every step of the run, in order: what was done, and the parameters.
  void step(std::int64_t step, std::optional<Phase> phase, const StrategyEvents& done,
            std::span<const float> parameters);
  // After the last step of an epoch: is another rank's copy, told by its digest, not rank 0's?
  void epoch(int epoch, std::int64_t step, std::span<const std::uint64_t> digests);
  // After the run: events that did not come are found out.
  void finish();

  const Verdict& verdict() const { return verdict_; }

 private:
  void compare(const GoldenEvent& event);
  void compare(std::int64_t step, std::span<const float> parameters);
  void add_event(const GoldenEvent* got, const GoldenEvent* expected);
  double allowed(std::int64_t step, std::size_t element, double expected) const;

  const TrainingCase& training_;
  const WireBound bound_;
  const int rank_;
  const int node_;
  std::size_t events_ = 0;  // seen so far
  Verdict verdict_;
};

}  // namespace daso::verify
