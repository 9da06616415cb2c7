// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daso/comm/world.h"
#include "daso/global/course.h"
#include "daso/global/cycle.h"
#include "daso/global/exchange_options.h"
#include "daso/global/preset.h"
#include "daso/model/flat_model.h"
#include "daso/optim/optimizer.h"

namespace daso {

struct StrategyOptions {
  std::string name = "daso";               // of strategy_names()
  ScheduleOptions schedule;                // local and daso
  ExchangeOptions exchange;                // daso; local uses its kind
  std::int64_t bucket_elements = 1 << 18;  // of gradients that travel together; --bucket-mb
  bool finite_gradients = true;            // false: others are averaged too, as LossScaler needs
};

// What a run with `daso` does by a preset, where nothing else is said: default_preset(nodes) or
// paper_preset().
StrategyOptions options_of(const Preset& preset, const Course& course);

// What a strategy has cost one rank so far.
struct Costs {
  double wait_seconds = 0;               // blocked in communication
  double communication_seconds = 0;      // some thread was busy with it, waited for or not
  std::int64_t bytes_between_nodes = 0;  // sent by this rank
};

// How the ranks of a world learn together. One step:
//
//   model.zero_gradients();
//   strategy.begin_backward(when);  // before the last backward of a step; earlier ones accumulate
//   loss.backward();                // gradients are averaged meanwhile, bucket by bucket
//   strategy.before_step();         // the rest of that
//   optimizer.step(when.rate);
//   strategy.after_step(when);      // merge what is due, then start what is due
//
// All ranks take the same steps. Everything that blocks throws PeerError at the world's limit.
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual void begin_backward(const When& when) = 0;
  // Throws Error if a gradient of this rank is not finite, naming its tensor, unless the options
  // allow it, or if a gradient is no longer part of the flat tensor.
  virtual void before_step() = 0;
  // Returns what was done. Throws Error if something that travels is not finite, or if copies that
  // should be equal are not.
  virtual Plan after_step(const When& when) = 0;
  // After the epoch's last step, with the mean training loss of this rank; returns that of all
  // ranks which the strategy ties together.
  virtual double end_epoch(int epoch, double loss) = 0;

  // Buffers (BatchNorm's statistics) become their mean over the ranks that the strategy ties
  // together; the last step of an epoch does it by itself, an evaluation in between needs it.
  virtual void average_buffers() = 0;

  // After the epoch's last step the optimizer's state may still be on its way to its mean. Waits
  // for it. before_step() does that by itself; a look at the optimizer's state in between needs it.
  virtual void settle() {}

  // An exchange in flight is part of the state; state() waits for its answer.
  virtual State state() = 0;
  virtual void load_state(const State& state) = 0;

  virtual Costs costs() const = 0;

  // How far the nodes were apart at the last exchange that this rank spoke in: the root mean square
  // of the difference between this node's parameters and the mean.
  virtual std::optional<double> distance() const { return std::nullopt; }
};

// none, node, sync, local, daso
std::vector<std::string> strategy_names();

// Rank 0's parameters and buffers become everybody's, frozen ones as well.
void spread_model(World& world, const FlatModel& model);

// Throws ConfigError where the options do not hold. Makes the groups it needs, and gives all ranks
// rank 0's parameters and buffers (not `none`, which communicates nothing). All is borrowed.
// Rank 0 prints what is known to cost accuracy to standard error.
std::unique_ptr<Strategy> make_strategy(World& world, FlatModel& model, Optimizer& optimizer,
                                        const StrategyOptions& options);

}  // namespace daso
