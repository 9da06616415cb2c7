// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daso/policy/run_plan.h"
#include "daso/record/lateness.h"
#include "daso/strategy/strategy.h"

namespace daso {

// How many examples of a class an evaluation met, and told right.
struct ClassScore {
  std::int64_t examples = 0;
  std::int64_t right = 0;
};

// What an evaluation finds.
struct Score {
  double loss = 0;      // mean over the labels, in nats; a text has one at each place
  double accuracy = 0;  // 0 ... 1; NaN: there is none, as of a regression
  std::optional<double> top5 =
      {};  // of images of more than 5 classes: the label is one of the best 5
  std::vector<ClassScore> classes = {};  // of images; a checkpoint does not keep it
};

inline bool has_accuracy(const Score& score) { return !std::isnan(score.accuracy); }

// Of numbers that come one by one.
struct RunningMean {
  double sum = 0;
  std::int64_t number = 0;

  void add(double value) {
    sum += value;
    ++number;
  }
  double value() const { return number == 0 ? 0 : sum / static_cast<double>(number); }
};

// What is known of a run after a step, on the rank that asks. record/metrics.h names what is
// recorded of it.
struct Progress {
  StepInfo info;
  int epochs = 0;
  std::int64_t steps = 0;  // of the whole run
  double seconds = 0;      // of the run, in this process
  StrategyStatus strategy;
  double loss = 0;                // mean of the epoch so far; of all ranks at its end
  RunningMean own_loss;           // the epoch's losses so far of this rank alone, also at its end
  double recent_loss = 0;         // of this rank since the record before: RunFiles finds it
  double samples_per_second = 0;  // of all ranks, in this epoch
  double wait_share = 0;          // of this rank's time in this epoch, blocked in communication
  double wait_seconds = 0;        // the same since the run began, in this process
  std::int64_t bytes_between_nodes = 0;      // sent by this rank
  std::optional<Late> late;                  // the last one found
  std::optional<std::int64_t> device_bytes;  // the most that tensors have held of a device
  std::optional<double> device_share;        // of the last moments in which it was at work
  std::vector<double> worked;                // seconds per step of each rank, as last heard of
  std::optional<Score> test;                 // at an epoch's end
  std::optional<int> members;                // nodes of the view, where they come and go
  StrategyEvents events;                     // there: what was not told before
};
using OnProgress = std::function<void(const Progress&)>;

}  // namespace daso
