// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "daso/comm/ordered_mean.h"
#include "daso/exchange/agreement.h"
#include "daso/exchange/hierarchical_mean.h"
#include "daso/policy/cycle.h"
#include "daso/strategy/strategy.h"
#include "daso/tensor/state.h"

// Parts of strategies that are not in exchange/: what several strategies do in the same way.
namespace daso {

// This rank, those of its node, or all.
Communicator& ranks_within(World& world, Reach reach);

// For a GradientSync that averages up to `farthest`.
GradientSyncOptions gradients_up_to(Reach farthest, const StrategyOptions& options);

// Losses and buffers, which become their mean over all ranks within reach when an epoch ends.
class EpochMeans {
 public:
  // Both are borrowed.
  EpochMeans(World& world, FlatModel& model, Reach reach);

  double mean_loss(int epoch, double loss);
  void average_buffers();
  // The same in two steps, of which the first leaves the buffers as they are.
  void prepare_buffers();
  void take_buffers();

 private:
  World& world_;
  FlatModel& model_;
  Communicator& ranks_;
  NodeLink* const home_;  // for wait_for_nodes()
  OrderedMean buffers_mean_;
  at::Tensor prepared_;
};

// What is due when a cycling epoch ends: all that nodes have differed in becomes its mean. False:
// as Agreement::agree().
bool agree_on_all(Agreement& agreement, EpochMeans& means, std::int64_t exchange,
                  const std::vector<at::Tensor>& residuals = {});

// The policy of a strategy with phases: what its schedule and its cycle say is due, and what a
// checkpoint and people who watch need to know of both.
class Pacing {
 public:
  Pacing(World& world, const ScheduleOptions& schedule, bool in_background);

  // Blocking phases average gradients over the world, cycling within the node.
  Reach reach(const StepInfo& info) const;
  // Once after every step, in order; the caller carries the plan out.
  Plan after_step(const StepInfo& info);
  // With the mean loss of all ranks.
  void end_epoch(int epoch, double loss) { schedule_.end_epoch(epoch, loss); }

  // As Cycle has them.
  void put_off(const Plan& plan);
  void abandon();
  Plan enter_view(std::int64_t first);
  // A merge that was due, and is not done.
  void abandon(const Plan::DueMerge& merge);
  // As Strategy has it.
  StrategyEvents take_undone() { return std::exchange(undone_, {}); }

  State state() const;
  void load_state(const State& state);
  const StrategyStatus& status() const { return status_; }

 private:
  Schedule schedule_;
  Cycle cycle_;
  StrategyStatus status_;
  StrategyEvents undone_;
};

// What carrying out a plan amounts to.
StrategyEvents events_of(const Plan& plan);

}  // namespace daso
