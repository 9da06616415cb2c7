// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/phased_strategy.h"

#include "daso/base/error.h"

namespace daso {
namespace {

void save(const PlateauState& plateau, State& state) {
  state["schedule.best"] = real(plateau.stall.best);
  state["schedule.bad_epochs"] = integer(plateau.stall.bad_epochs);
  state["schedule.skip"] = integer(plateau.cadence.skip);
  state["schedule.wait"] = integer(plateau.cadence.wait);
}

PlateauState plateau_in(const State& state) {
  return {.stall = {.best = real_in(state, "schedule.best"),
                    .bad_epochs = static_cast<int>(integer_in(state, "schedule.bad_epochs"))},
          .cadence = {.skip = static_cast<int>(integer_in(state, "schedule.skip")),
                      .wait = static_cast<int>(integer_in(state, "schedule.wait"))}};
}

void save(const CycleState& cycle, State& state) {
  state["cycle.exchanges"] = integer(cycle.exchanges);
  state["cycle.last_start"] = integer(cycle.last_start);
  state["cycle.skip"] = integer(cycle.skip);
  if (cycle.cycling) state["cycle.cycling"] = integer(*cycle.cycling ? 1 : 0);
  state["cycle.in_flight"] = integer(cycle.in_flight ? 1 : 0);
  if (!cycle.in_flight) return;
  state["cycle.in_flight.exchange"] = integer(cycle.in_flight->exchange);
  state["cycle.in_flight.started"] = integer(cycle.in_flight->started);
  state["cycle.in_flight.wait"] = integer(cycle.in_flight->wait);
}

CycleState cycle_in(const State& state) {
  CycleState cycle{.exchanges = integer_in(state, "cycle.exchanges"),
                   .in_flight = std::nullopt,
                   .last_start = integer_in(state, "cycle.last_start"),
                   .skip = integer_in(state, "cycle.skip"),
                   .cycling = std::nullopt};
  if (state.contains("cycle.cycling")) cycle.cycling = integer_in(state, "cycle.cycling") != 0;
  if (integer_in(state, "cycle.in_flight") == 0) return cycle;
  cycle.in_flight = {.exchange = integer_in(state, "cycle.in_flight.exchange"),
                     .started = integer_in(state, "cycle.in_flight.started"),
                     .wait = static_cast<int>(integer_in(state, "cycle.in_flight.wait"))};
  return cycle;
}

StrategyEvents events_of(const Plan& plan) {
  using Kind = StrategyEvent::Kind;
  StrategyEvents events;
  if (plan.merge) events.push_back({Kind::kMerge, plan.merge->exchange, plan.merge->staleness});
  if (plan.then == Plan::Then::kNothing) return events;
  const Kind kind = plan.then == Plan::Then::kStart     ? Kind::kStart
                    : plan.then == Plan::Then::kAverage ? Kind::kAverage
                                                        : Kind::kAgree;
  events.push_back({kind, plan.exchange});
  return events;
}

}  // namespace

PhasedStrategy::PhasedStrategy(const StrategyParts& parts, bool in_background)
    : AveragingStrategy(parts, Reach::kWorld),
      schedule_(parts.options.schedule),
      cycle_({.nodes = parts.world.topology().nodes(), .in_background = in_background}),
      leaders_(parts.world, parts.options.exchange.kind, "exchange"),
      agreement_(parts.world, parts.model, parts.optimizer, leaders_) {}

Reach PhasedStrategy::reach(const StepInfo& info) const {
  return is_blocking(schedule_.epoch(info.epoch).phase) ? Reach::kWorld : Reach::kNode;
}

void PhasedStrategy::before_step() {
  AveragingStrategy::before_step();
  agreement_.settle();
}

StrategyEvents PhasedStrategy::after_step(const StepInfo& info) {
  const Plan plan = cycle_.after_step(schedule_, info);
  obey(plan);
  if (info.batch == info.last) average_buffers();
  follow(plan, info.step);
  return events_of(plan);
}

void PhasedStrategy::follow(const Plan& plan, std::int64_t step) {
  const std::optional<CycleState::InFlight>& in_flight = cycle_.state().in_flight;
  status_.phase = plan.phase;
  status_.in_flight_for = in_flight ? step - in_flight->started + 1 : 0;
  if (plan.merge) status_.staleness = plan.merge->staleness;
  if (is_blocking(plan.phase)) status_.skip = status_.wait = 0;
  if (plan.skip == 0) return;
  status_.skip = plan.skip;
  status_.wait = plan.wait;
}

double PhasedStrategy::end_epoch(int epoch, double loss) {
  const double mean = AveragingStrategy::end_epoch(epoch, loss);
  schedule_.end_epoch(epoch, mean);
  return mean;
}

State PhasedStrategy::state() {
  agreement_.settle();
  State state;
  if (schedule_.options().kind == ScheduleKind::kPlateau) save(schedule_.state(), state);
  save(cycle_.state(), state);
  return state;
}

void PhasedStrategy::load_state(const State& state) {
  // None from a run of another schedule: this one begins as its options say.
  if (state.contains("schedule.best")) schedule_.load_state(plateau_in(state));
  cycle_.load_state(cycle_in(state));
}

Costs PhasedStrategy::costs() const {
  Costs costs = AveragingStrategy::costs();
  costs.wait_seconds += agreement_.wait_seconds();
  costs.communication_seconds += agreement_.busy_seconds();
  costs.bytes_between_nodes += agreement_.bytes_between_nodes();
  return costs;
}

}  // namespace daso
