// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>

#include "daso/comm/world.h"
#include "daso/nets/make_network.h"
#include "daso/optim/gradients.h"
#include "daso/optim/optimizer.h"
#include "daso/policy/run_plan.h"
#include "daso/run/settings.h"
#include "daso/run/train_step.h"
#include "daso/strategy/strategy.h"
#include "daso/tensor/lane.h"

namespace daso::bench {

// Steps of a real network on inputs that are there already.
struct TrainJob {
  int warmup_steps = 0;
  int steps = 0;  // measured
  RunPlan run_plan;
  Settings run;  // of it what a step needs: batch size, optimizer, precision, ...
  NetworkOptions network;
  StrategyOptions strategy;
};

struct TrainResult {
  double seconds = 0;             // per step, of the slowest rank
  double loss = 0;                // of the last step, on rank 0
  bool graph = false;             // steps were replayed as one
  std::int64_t device_bytes = 0;  // that tensors have held at most, on rank 0; 0 on the CPU
  std::int64_t parameters = 0;
};

// Trains as a Session does, without data, records and checkpoints.
class TrainBench {
 public:
  // The world is borrowed. All ranks make theirs together.
  TrainBench(World& world, c10::Device device, TrainJob job);
  ~TrainBench();

  TrainResult measure();

 private:
  void go_on(int steps);
  void step(const StepInfo& info);

  World& world_;
  const c10::Device device_;
  const TrainingStream stream_;  // before all that is made under it
  const TrainJob job_;
  const Task task_;  // none
  const std::shared_ptr<Network> network_;
  FlatModel model_;
  const std::unique_ptr<Optimizer> optimizer_;
  const std::unique_ptr<Strategy> strategy_;
  std::optional<LossScaler> scaler_;
  TrainStep compute_;
  Batch batch_;
  at::Tensor loss_;
  std::int64_t done_ = 0;
};

}  // namespace daso::bench
