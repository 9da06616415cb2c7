// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "daso/optim/learning_rate.h"
#include "daso/run/loss.h"
#include "daso/strategy/strategy.h"
#include "daso/tensor/state.h"

namespace daso {

// What one rank counts from a run's beginning to its end, however often it is stopped.
struct Tally {
  EpochLoss loss;         // of the epoch under way
  double train_loss = 0;  // of the last epoch, all ranks
  Score score;            // after it
  // Of the best epoch: its accuracy, or minus its loss where there is none.
  double best_merit = -std::numeric_limits<double>::infinity();
  std::int64_t exchanges = 0;
  RunningMean staleness;
  RateFactor rate;                 // by which the learning rate has fallen
  std::int64_t skipped_steps = 0;  // by loss scaling
  // Of all ranks: those of shares that nobody had since their node was lost.
  std::int64_t unseen_examples = 0;

  void add(const StrategyEvents& events);
};

State state_of(const Tally& tally);
Tally tally_in(const State& state);

}  // namespace daso
