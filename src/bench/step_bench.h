// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "bench/emulated_model.h"
#include "daso/comm/world.h"
#include "daso/optim/sgd.h"
#include "daso/policy/run_plan.h"
#include "daso/strategy/strategy.h"

// What the `daso bench` commands and `daso doctor` measure, apart from their flags and tables in
// src/cli: whole training steps with the computing left out (here, on the model of
// emulated_model.h), collectives (operations.h), pairs of nodes (pair_check.h) and the memory of a
// machine (copy_speed.h). statistics.h sums up repetitions and ranks.
namespace daso::bench {

// The steps that are done, and how the epochs cut them.
struct StepJob {
  int warmup_steps = 0;
  int steps = 0;  // measured
  RunPlan run_plan;
  EmulatedModelOptions model;
  PaceOptions pace;
  StrategyOptions strategy;
  std::filesystem::path trace;  // of the measured steps; empty: not recorded
};

// Per step.
struct StepResult {
  double seconds = 0;              // of the slowest rank
  double wait_seconds = 0;         // mean over the ranks
  double cpu_seconds = 0;          // of all threads of a rank, mean over the ranks
  double bytes_between_nodes = 0;  // of the node that sends most
};

// Trains a model whose accelerator is emulated.
class StepBench {
 public:
  // The world is borrowed. All ranks make theirs together.
  StepBench(World& world, StepJob job);

  StepResult measure();

 private:
  void go_on(int steps);
  void step(const StepInfo& info);
  std::int64_t most_of_a_node(std::int64_t own);

  World& world_;
  const StepJob job_;
  EmulatedModel work_;
  FlatModel model_;
  Sgd optimizer_;
  std::unique_ptr<Strategy> strategy_;
  std::int64_t done_ = 0;
};

}  // namespace daso::bench
