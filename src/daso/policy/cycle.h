// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "daso/policy/schedule.h"

// Steps 4 and 5 of algorithm.md 3 as a value: what is due after a step, without doing it. The
// strategies `daso` and `local` obey it, the simulator and `daso schedule` count it.
namespace daso {

struct CycleOptions {
  int nodes = 1;              // on one node there is nothing to exchange
  bool in_background = true;  // `daso`; false: `local`, whose exchanges block and need no merge
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
  std::int64_t exchanges = 0;  // begun so far, agreements included: the number of the next one
  std::optional<InFlight> in_flight;
  std::int64_t last_start = 0;  // the step within the epoch; b == 0 of each epoch sets it anew
  std::int64_t skip = 0;        // of the round that began there
  std::optional<bool> cycling;  // the last step did; none: an older checkpoint does not say
  bool operator==(const CycleState&) const = default;
};

class Cycle {
 public:
  explicit Cycle(const CycleOptions& options);

  // To be called once after every step of the run, blocking phases included, in order. Throws
  // ConfigError for a loaded state that the schedule cannot go on from.
  Plan after_step(const Schedule& schedule, const StepInfo& info);

  const CycleState& state() const { return state_; }
  void load_state(const CycleState& state) { state_ = state; }

 private:
  void keep_to_phase(bool cycling, const StepInfo& info);
  std::optional<Plan::DueMerge> take_due_merge(const StepInfo& info);

  CycleOptions options_;
  CycleState state_;
};

}  // namespace daso
