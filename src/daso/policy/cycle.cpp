// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/cycle.h"

#include <algorithm>
#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

EpochTrajectory epoch_of(const Schedule& schedule, Cycle& cycle, const RunPlan& run_plan,
                         int epoch) {
  EpochTrajectory done{.plan = schedule.epoch(epoch)};
  for (std::int64_t batch = 0; batch < run_plan.batches; ++batch) {
    const StepInfo info = run_plan.at(epoch, batch);
    const Plan plan = cycle.after_step(schedule, info);
    if (plan.then == Plan::Then::kNothing) continue;
    ++done.exchanges;
    if (plan.then == Plan::Then::kAgree)
      ++done.agreements;
    else
      done.starts.push_back({.step = info.step, .skip = plan.skip});
  }
  return done;
}

}  // namespace

Cycle::Cycle(const CycleOptions& options) : options_(options) {
  require(options_.nodes >= 1, "a world has at least 1 node, got {}", options_.nodes);
}

Plan Cycle::after_step(const Schedule& schedule, const StepInfo& info) {
  DASO_ASSERT(info.batch >= 0 && info.batch <= info.last);
  const auto [phase, cadence] = schedule.epoch(info.epoch);
  Plan plan{.phase = phase};
  if (options_.nodes == 1 && !options_.in_views) return plan;
  keep_to_phase(!is_blocking(phase), info);
  if (is_blocking(phase)) return plan;
  plan.merge = take_due_merge(info);
  if (info.batch == info.last) {
    plan.then = Plan::Then::kAgree;
  } else if (starts_at(info, state_.last_start, state_.skip)) {
    // A round is never shorter than the wait that it began with, so the one before has been merged;
    // two in flight would diverge.
    DASO_ASSERT(!state_.in_flight);
    plan.then = options_.in_background ? Plan::Then::kStart : Plan::Then::kAverage;
    plan.skip = schedule.round(info);
    state_.last_start = info.batch;
    state_.skip = plan.skip;
  }
  if (plan.then == Plan::Then::kNothing) return plan;
  if (plan.then != Plan::Then::kStart) {
    plan.exchange = number_of_blocking(state_.exchanges);
    return plan;
  }
  plan.exchange = state_.exchanges++;
  if (plan.exchange < first_) return {.phase = phase, .merge = plan.merge};
  plan.wait = cadence.wait;
  state_.in_flight = {.exchange = plan.exchange, .started = info.step, .wait = plan.wait};
  return plan;
}

std::int64_t Cycle::number_of_blocking(std::int64_t planned) {
  const std::int64_t number = std::max(planned, first_);
  state_.exchanges = number + 1;
  return number;
}

Plan Cycle::enter_view(std::int64_t first) {
  first_ = first;
  if (!state_.put_off) return {};
  const CycleState::PutOff due = *std::exchange(state_.put_off, std::nullopt);
  if (due.then != Plan::Then::kStart) {
    return {.then = due.then, .exchange = number_of_blocking(due.exchange)};
  }
  if (due.exchange >= first) return {.then = due.then, .exchange = due.exchange};
  abandon();
  return {};
}

// Blocking steps need nodes that are equal, and cycling needs the anchor that its epoch has begun
// with: a run with other phases than before can go on from an epoch's beginning only.
void Cycle::keep_to_phase(bool cycling, const StepInfo& info) {
  // An older checkpoint that does not say is believed, unless its exchange shows that it cycled.
  const bool before = state_.cycling.value_or(cycling || state_.in_flight.has_value());
  if (info.batch > 0 && before != cycling) {
    throw ConfigError(fmt::format(
        "epoch {} is {} in the checkpoint, which is from its middle, and {} here: go on with the "
        "epochs, warm-up and cool-down that the run had, or from an epoch's beginning",
        info.epoch + 1, before ? "cycling" : "blocking", cycling ? "cycling" : "blocking"));
  }
  state_.cycling = cycling;
}

std::optional<Plan::DueMerge> Cycle::take_due_merge(const StepInfo& info) {
  if (!state_.in_flight) return {};
  if (!merge_is_due(info, state_.in_flight->started, state_.in_flight->wait)) return {};
  const CycleState::InFlight due = *std::exchange(state_.in_flight, std::nullopt);
  return Plan::DueMerge{.exchange = due.exchange, .staleness = info.step - due.started};
}

std::vector<EpochTrajectory> trajectory_of(Schedule schedule, Cycle cycle, const RunPlan& run_plan,
                                           const LossOfEpoch& loss) {
  DASO_ASSERT(run_plan.epochs == schedule.epochs());
  require(run_plan.batches >= 1, "an epoch has at least 1 step, got {}", run_plan.batches);
  std::vector<EpochTrajectory> epochs;
  for (int epoch = 0; epoch < schedule.epochs(); ++epoch) {
    epochs.push_back(epoch_of(schedule, cycle, run_plan, epoch));
    schedule.end_epoch(epoch, loss(epoch));
  }
  return epochs;
}

}  // namespace daso
