// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daso/comm/world.h"
#include "daso/exchange/gradient_sync.h"
#include "daso/optim/optimizer.h"
#include "daso/policy/cycle.h"
#include "daso/policy/exchange_options.h"
#include "daso/policy/preset.h"
#include "daso/policy/run_plan.h"
#include "daso/tensor/flat_model.h"

// The folder `strategy` puts training together: a strategy decides how the ranks of a world learn
// one model. It is composed of parts that it owns, and adds nothing but the order in which they
// act:
//
//   gradient sync  averages gradients during backward (exchange/gradient_sync.h)
//   policy         says what is due after a step: schedule and cycle (policy/, Pacing in parts.h)
//   exchange       averages parameters between nodes, in the background (exchange/exchange.h) or
//                  at once (exchange/agreement.h)
//   outer rule     says what becomes of the answer (exchange/outer_rule.h)
//
// Each part keeps its own state and counts its own costs; a strategy passes them on. A new strategy
// is one file and one row of the table in strategy.cpp, or a row that a program of its own hands in
// as StrategyOptions::own. Nobody else knows the strategies by name: what others need to know
// stands in the row's traits.
namespace daso {

// What others need to know of a strategy: nobody else compares names.
struct StrategyTraits {
  Reach ties = Reach::kWorld;     // the ranks that train one model together
  bool lockstep = true;           // all ranks take the same steps
  bool equal_after_epoch = true;  // all nodes have the same model when an epoch is over
  bool cycles = false;            // it has phases and a schedule: preset, skip, warm-up
  bool merges_late = false;       // parameters travel in the background: wait, merge, wire
};

class Strategy;
struct StrategySetup;

// A row of the table of strategies.
struct StrategyEntry {
  std::string name;
  StrategyTraits traits;
  std::function<std::unique_ptr<Strategy>(const StrategySetup& setup)> make;
};

struct StrategyOptions {
  std::string name = "daso";               // of strategy_names()
  ScheduleOptions schedule;                // local and daso
  ExchangeOptions exchange;                // daso; local uses its kind
  std::int64_t bucket_elements = 1 << 18;  // of gradients that travel together; --bucket-mb
  bool finite_gradients = true;            // false: others are averaged too, as LossScaler needs
  bool spread = true;                      // rank 0's parameters are everybody's at the beginning
  std::optional<StrategyEntry> own = {};   // a strategy that is not in the table, in place of name
};

// What a run with `daso` does by a preset, where nothing else is said: default_preset(nodes) or
// paper_preset().
StrategyOptions options_of(const Preset& preset, const RunPlan& run_plan);

// What a strategy did after a step.
struct StrategyEvent {
  enum class Kind {
    kMerge,    // the answer of an exchange was merged
    kStart,    // an exchange began in the background, with the parameters after the merge
    kAverage,  // parameters became their mean at once
    kAgree,    // parameters and optimizer state became their mean
    kAbandon,  // an exchange does not count: the view ended before all had its answer
    kPutOff    // what was due is done in the next view, with this number or a higher one
  };
  Kind kind = Kind::kMerge;
  std::int64_t exchange = 0;   // its number
  std::int64_t staleness = 0;  // kMerge: the steps since its start
  bool operator==(const StrategyEvent&) const = default;
};
using StrategyEvents = std::vector<StrategyEvent>;

// One of them has changed parameters by what other nodes had.
bool change_parameters(const StrategyEvents& events);

// Where a strategy stands after its last step, for people to see.
struct StrategyStatus {
  std::optional<Phase> phase;      // none: it has none
  std::int64_t skip = 0;           // steps from the last start to the next; 0: nothing is exchanged
  int wait = 0;                    // steps from it to its merge; 0: it blocks
  std::int64_t in_flight_for = 0;  // steps since an exchange began that is not merged; 0: none is
  std::optional<std::int64_t> staleness;  // of the last merge
  // How far the nodes were apart at the last exchange that this rank led: the root mean square of
  // the difference between this node's parameters and the mean.
  std::optional<double> distance;
};

// How the ranks of a world learn together. One step:
//
//   model.zero_gradients();
//   strategy.begin_backward(info);  // before the last backward of a step; earlier ones accumulate
//   loss.backward();                // gradients are averaged meanwhile, bucket by bucket
//   strategy.before_step();         // the rest of that
//   optimizer.step(info.rate);
//   strategy.after_step(info);      // merge what is due, then start what is due
//
// An optimizer that evaluates the loss several times in a step has the first four lines each time.
//
// All ranks take the same steps where the traits say lockstep. Everything that blocks throws
// PeerError at the world's limit.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The ranks whose gradients are averaged in this step.
  virtual Reach reach(const StepInfo& info) const = 0;
  virtual void begin_backward(const StepInfo& info) = 0;
  // Throws Error if a gradient of this rank is not finite, naming its tensor, unless the options
  // allow it, or if a gradient is no longer part of the flat tensor.
  virtual void before_step() = 0;
  // Returns what was done, in order. Throws Error if something that travels is not finite, or if
  // copies that should be equal are not.
  virtual StrategyEvents after_step(const StepInfo& info) = 0;
  // After the epoch's last step, with the mean training loss of this rank; returns that of all
  // ranks which the strategy ties together, and changes nothing.
  virtual double mean_loss(int epoch, double loss) = 0;
  // The epoch is over, with this mean loss: a schedule may follow it. Waits for nobody.
  virtual void end_epoch(int /*epoch*/, double /*mean_loss*/) {}

  // Buffers (BatchNorm's statistics) become their mean over the ranks that the strategy ties
  // together; the last step of an epoch does it by itself, an evaluation in between needs it.
  virtual void average_buffers() = 0;

  // After the epoch's last step the optimizer's state may still be on its way to its mean. Waits
  // for it. before_step() does that by itself; a look at the optimizer's state in between needs it.
  virtual void settle() {}

  // An exchange in flight is part of the state; state() waits for its answer. In a world for a view
  // it waits until it counts, too, and all ranks of the node call it together.
  virtual State state() { return {}; }
  virtual void load_state(const State&) {}

  // Where nodes come and go (comm/views.h). The view has ended, as all ranks of the node have heard
  // by now: to be asked after a step and after state(). The node then goes on in a world for the
  // next view, with a strategy that is given the state of this one and enters the view before its
  // next step.
  virtual bool view_ended() const { return false; }
  // Begins what the view's end had put off; what has a lower number than the view's first exchange
  // was given up. Returns what was done. view_ended() may hold again.
  virtual StrategyEvents enter_view(std::int64_t /*first_exchange*/) { return {}; }
  // kAbandon and kPutOff of the time since it was asked last: to be asked when the view has ended
  // and state() was taken, and when the next one was entered.
  virtual StrategyEvents take_undone() { return {}; }
  // The state of a node that joins this one, whose ranks call it together when state() has been
  // taken. Where there is an anchor, "exchange.anchor" is all of it, [rows, kFlatBlock] of floats,
  // and the joiner's parameters are the same.
  virtual State state_for_joiner() { return state(); }
  // What a node that is to join later can be given ahead: the anchor as it is now, on the host, and
  // the answers that move it from then on (as Exchange has both). Undefined: there is no anchor.
  // All ranks of the node call anchor() together.
  virtual at::Tensor anchor() { return {}; }
  virtual void on_answer(
      std::function<void(std::int64_t exchange, const at::Tensor& answer)> /*tell*/) {}

  virtual Costs costs() const = 0;

  virtual StrategyStatus status() const { return {}; }
};

// What a strategy is made from; all is borrowed, the options up to the end of make() alone.
struct StrategySetup {
  World& world;
  FlatModel& model;
  Optimizer& optimizer;
  const StrategyOptions& options;
};

// none, node, sync, local, daso
std::vector<std::string> strategy_names();
// Of the strategy of this name. Throws ConfigError where there is none, with the nearest one.
StrategyTraits traits_of(const std::string& strategy);
// Of the strategy that make_strategy() would make.
StrategyTraits traits_of(const StrategyOptions& options);

// Rank 0's parameters and buffers become everybody's, frozen ones as well.
void spread_model(World& world, const FlatModel& model);

// Throws ConfigError where the options do not hold. Makes the groups it needs, and gives all ranks
// rank 0's parameters and buffers (not `none`, which communicates nothing). All is borrowed.
// Rank 0 prints what is known to cost accuracy to standard error.
std::unique_ptr<Strategy> make_strategy(World& world, FlatModel& model, Optimizer& optimizer,
                                        const StrategyOptions& options);

}  // namespace daso
