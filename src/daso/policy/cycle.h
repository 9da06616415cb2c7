// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daso/policy/schedule.h"

// The folder `policy` decides and does nothing: values that can be computed and tested without
// ranks, devices or time, and that are equal on all ranks since all compute them from the same
// input. A RunPlan lists the steps of a run. A Schedule says which phase an epoch belongs to and
// how often it exchanges. A Cycle, below, combines both into a Plan: what is due after a step
// (lines 4 and 5 of algorithm.md 3). Strategies carry plans out, the simulator and `daso schedule`
// count them. ExchangeOptions say what travels, a Preset what a run does where nobody says
// otherwise.
namespace daso {

// A new round of `skip` steps begins: the first of the epoch, or the one before is over. The last
// step of an epoch starts nothing, since the agreement is due.
constexpr bool starts_at(const StepInfo& info, std::int64_t last_start, std::int64_t skip) {
  return info.batch != info.last && (info.batch == 0 || info.batch - last_start >= skip);
}

// Nothing stays in flight across epochs.
constexpr bool merge_is_due(const StepInfo& info, std::int64_t started, int wait) {
  return info.step - started == wait || info.batch == info.last;
}

struct CycleOptions {
  int nodes = 1;              // on one node there is nothing to exchange
  bool in_background = true;  // `daso`; false: `local`, whose exchanges block and need no merge
  // Nodes come and go: one that is alone counts its exchanges, since others may join it.
  bool in_views = false;
};

// What is due after a step: first the merge, then one of the rest.
struct Plan {
  struct DueMerge {
    std::int64_t exchange = 0;   // the number it got at its start
    std::int64_t staleness = 0;  // the steps that have passed since
    bool operator==(const DueMerge&) const = default;
  };
  enum class Then {
    kNothing,
    kStart,  // an exchange in the background begins with the parameters as they are after the merge
    kAverage,  // `local`: parameters become their mean at once
    kAgree     // the epoch ends: parameters and optimizer state become their mean
  };
  Phase phase = Phase::kCycling;
  std::optional<DueMerge> merge;
  Then then = Then::kNothing;
  std::int64_t exchange = 0;  // the number of what begins, unless it is nothing
  std::int64_t skip = 0;      // the steps to the next start, for kStart and kAverage
  int wait = 0;               // the steps to its merge, for kStart
  bool operator==(const Plan&) const = default;
};

// What a checkpoint keeps.
struct CycleState {
  struct InFlight {
    std::int64_t exchange = 0;
    std::int64_t started = 0;  // the step of the run
    int wait = 0;              // to its merge; a run that goes on may have another for the next
    bool operator==(const InFlight&) const = default;
  };
  struct PutOff {
    Plan::Then then = Plan::Then::kNothing;
    std::int64_t exchange = 0;
    bool operator==(const PutOff&) const = default;
  };
  std::int64_t exchanges = 0;  // begun so far, agreements included: the number of the next one
  std::optional<InFlight> in_flight;
  std::int64_t last_start = 0;    // the step within the epoch; b == 0 of each epoch sets it anew
  std::int64_t skip = 0;          // of the round that began there
  std::optional<bool> cycling;    // the last step did; none: an older checkpoint does not say
  std::optional<PutOff> put_off;  // to the next view
  bool operator==(const CycleState&) const = default;
};

class Cycle {
 public:
  explicit Cycle(const CycleOptions& options);

  // To be called once after every step of the run, blocking phases included, in order. Throws
  // ConfigError for a loaded state that the schedule cannot go on from.
  Plan after_step(const Schedule& schedule, const StepInfo& info);

  // Where nodes come and go, and a view ends. What the plan says then has not begun
  // in it, or was given up by all, and is due in the next.
  void put_off(const Plan& plan) { state_.put_off = {plan.then, plan.exchange}; }
  // The exchange in flight was given up by all: there is nothing to merge.
  void abandon() { state_.in_flight.reset(); }
  // The next view begins, whose exchanges have numbers from `first` on. Returns what was put off
  // and is due now. A start with a lower number is skipped, here and later, but counts for the
  // schedule: others have begun that exchange, and it was given up. What blocks is done again by
  // all, with a number of this view.
  Plan enter_view(std::int64_t first);

  const CycleState& state() const { return state_; }
  void load_state(const CycleState& state) { state_ = state; }

 private:
  void keep_to_phase(bool cycling, const StepInfo& info);
  std::optional<Plan::DueMerge> take_due_merge(const StepInfo& info);
  std::int64_t number_of_blocking(std::int64_t planned);

  CycleOptions options_;
  CycleState state_;
  std::int64_t first_ = 0;  // of the view
};

// A whole run as its schedule sees it, without ranks: which epoch does what, and when exchanges
// start.
struct EpochTrajectory {
  struct Start {
    std::int64_t step = 0;  // of the run
    std::int64_t skip = 0;  // not cut at the epoch's end
    bool operator==(const Start&) const = default;
  };
  EpochPlan plan;
  std::vector<Start> starts;
  std::int64_t exchanges = 0;   // starts and agreement
  std::int64_t agreements = 0;  // 0 or 1
};

// Mean training loss of all ranks in an epoch.
using LossOfEpoch = std::function<double(int epoch)>;

std::vector<EpochTrajectory> trajectory_of(Schedule schedule, Cycle cycle, const RunPlan& run_plan,
                                           const LossOfEpoch& loss);

}  // namespace daso
