// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/ordered_mean.h"
#include "daso/exchange/gradient_sync.h"
#include "daso/strategy/strategy.h"

namespace daso {

// What a strategy is made from; all is borrowed.
struct StrategyParts {
  World& world;
  FlatModel& model;
  Optimizer& optimizer;
  const StrategyOptions& options;
};

// What all strategies that communicate have in common: gradients averaged during backward, losses
// and buffers averaged at the epoch's end.
class AveragingStrategy : public Strategy {
 public:
  // `farthest` is how far gradients, losses and buffers are averaged at most.
  AveragingStrategy(const StrategyParts& parts, Reach farthest);

  void begin_backward(const StepInfo& info) override;
  void before_step() override;
  double end_epoch(int epoch, double loss) override;
  void average_buffers() override;
  State state() override { return {}; }
  void load_state(const State&) override {}
  Costs costs() const override;

 protected:
  // How far the gradients of this step are averaged.
  virtual Reach reach(const StepInfo& info) const = 0;

  World& world() { return world_; }
  const World& world() const { return world_; }

 private:
  World& world_;
  FlatModel& model_;
  GradientSync gradients_;
  Communicator& ranks_;  // all within the farthest reach
  OrderedMean buffers_mean_;
  double wait_seconds_ = 0;
};

// One of each, in a file of its own; strategy.cpp has the table.
std::unique_ptr<Strategy> make_none(const StrategyParts& parts);
std::unique_ptr<Strategy> make_node(const StrategyParts& parts);
std::unique_ptr<Strategy> make_sync(const StrategyParts& parts);
std::unique_ptr<Strategy> make_local(const StrategyParts& parts);
std::unique_ptr<Strategy> make_daso(const StrategyParts& parts);

}  // namespace daso
