// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "daso/kernels/wire.h"
#include "verify/golden_case.h"
#include "verify/verdict.h"

namespace daso::verify {

// How far a lossy wire may take the parameters of a golden case from those of the fp32 wire: the
// sum, over the exchanges merged so far, of the quantum of what the nodes sent and the quantum of
// the mean that came back.
//
// Why that holds: what a node sends and what the others send is rounded by half a quantum each, and
// so is the mean, whose rest comes back with the next one. A merge therefore moves a parameter by
// no more than those two quanta away from where it would be. Later steps shrink that, or stretch it
// by a factor that is 1 for every learning rate in use; it is computed and taken into account. A
// later merge adds its own error and takes most of the older ones back, since what rounding left
// out is in the next difference: the sum is a bound, not an estimate.
//
// Differences are those of the expected parameters, so that no number comes from the run that is
// judged.
class WireBound {
 public:
  WireBound(const TrainingCase& training, Wire wire);

  // After a step of the run.
  double at(std::int64_t step, std::size_t element) const {
    return by_step_[static_cast<std::size_t>(step)][element / kBlockElements];
  }
  double largest() const;

 private:
  std::vector<std::vector<double>> by_step_;  // then by block
};

// Twice the most by which the wire rounds a value in a block whose largest is this: where it rounds
// to the nearest, the distance of neighbouring values. 0 on the fp32 wire.
double quantum_of(Wire wire, double largest);

// The most by which a parameter of the case that is pushed by 1 is ever away from where it would
// be, if only its own node trains it.
double largest_response(const TrainingCase& training);

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
