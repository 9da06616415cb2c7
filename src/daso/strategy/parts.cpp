// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/parts.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"

namespace daso {
namespace {

std::vector<Share> equal_shares(int ranks) {
  std::vector<Share> shares;
  for (int rank = 0; rank < ranks; ++rank)
    shares.push_back({rank, 1.0F / static_cast<float>(ranks)});
  return shares;
}

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
  if (cycle.put_off) {
    state["cycle.put_off"] = integer(static_cast<std::int64_t>(cycle.put_off->then));
    state["cycle.put_off.exchange"] = integer(cycle.put_off->exchange);
  }
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
                   .cycling = std::nullopt,
                   .put_off = std::nullopt};
  if (state.contains("cycle.cycling")) cycle.cycling = integer_in(state, "cycle.cycling") != 0;
  if (state.contains("cycle.put_off")) {
    cycle.put_off = {.then = static_cast<Plan::Then>(integer_in(state, "cycle.put_off")),
                     .exchange = integer_in(state, "cycle.put_off.exchange")};
  }
  if (integer_in(state, "cycle.in_flight") == 0) return cycle;
  cycle.in_flight = {.exchange = integer_in(state, "cycle.in_flight.exchange"),
                     .started = integer_in(state, "cycle.in_flight.started"),
                     .wait = static_cast<int>(integer_in(state, "cycle.in_flight.wait"))};
  return cycle;
}

}  // namespace

Communicator& ranks_within(World& world, Reach reach) {
  switch (reach) {
    case Reach::kRank:
      return world.group({world.rank()}, fmt::format("rank {}", world.rank()));
    case Reach::kNode:
      return world.node_group();
    case Reach::kWorld:
      break;
  }
  return world.everyone();
}

GradientSyncOptions gradients_up_to(Reach farthest, const StrategyOptions& options) {
  return {.farthest = farthest,
          .bucket_elements = options.bucket_elements,
          .finite = options.finite_gradients};
}

EpochMeans::EpochMeans(World& world, FlatModel& model, Reach reach)
    : world_(world),
      model_(model),
      ranks_(ranks_within(world, reach)),
      home_(reach == Reach::kWorld && world.views() != nullptr ? &world.node_link("means") : nullptr),
      buffers_mean_(ranks_, equal_shares(ranks_.size())) {}

double EpochMeans::mean_loss(int epoch, double loss) {
  const TimedSpan span(world_.timeline(), Track::kAgreement, "losses", epoch);
  const at::Tensor mean = at::full({1}, loss, at::kDouble);
  wait_for_nodes(home_, world_.limit(), [&] {
    ranks_.all_reduce(mean, Reduce::kMean).wait(world_.limit());
  });
  return mean.item<double>();
}

void EpochMeans::average_buffers() {
  prepare_buffers();
  take_buffers();
}

void EpochMeans::prepare_buffers() {
  if (model_.buffers().numel() == 0) return;
  prepared_ = model_.buffers().clone();
  world_.wait_for(prepared_.device(), "averaging buffers");  // which are then read
  const TimedSpan span(world_.timeline(), Track::kAgreement, "buffers", 0);
  wait_for_nodes(home_, world_.limit(), [&] { buffers_mean_(prepared_, world_.limit()); });
}

void EpochMeans::take_buffers() {
  if (prepared_.defined()) model_.buffers().copy_(prepared_);
  prepared_.reset();
}

bool agree_on_all(Agreement& agreement, EpochMeans& means, std::int64_t exchange,
                  const std::vector<at::Tensor>& residuals) {
  if (!agreement.agree(exchange, residuals, [&] { means.prepare_buffers(); })) return false;
  means.take_buffers();
  return true;
}

Pacing::Pacing(World& world, const ScheduleOptions& schedule, bool in_background)
    : schedule_(schedule),
      cycle_({.nodes = world.topology().nodes(),
              .in_background = in_background,
              .in_views = world.views() != nullptr}) {}

Reach Pacing::reach(const StepInfo& info) const {
  return is_blocking(schedule_.epoch(info.epoch).phase) ? Reach::kWorld : Reach::kNode;
}

Plan Pacing::after_step(const StepInfo& info) {
  const Plan plan = cycle_.after_step(schedule_, info);
  const std::optional<CycleState::InFlight>& in_flight = cycle_.state().in_flight;
  status_.phase = plan.phase;
  status_.in_flight_for = in_flight ? info.step - in_flight->started + 1 : 0;
  if (plan.merge) status_.staleness = plan.merge->staleness;
  if (is_blocking(plan.phase)) status_.skip = status_.wait = 0;
  if (plan.skip != 0) {
    status_.skip = plan.skip;
    status_.wait = plan.wait;
  }
  return plan;
}

void Pacing::put_off(const Plan& plan) {
  cycle_.put_off(plan);
  undone_.push_back({StrategyEvent::Kind::kPutOff, plan.exchange});
}

void Pacing::abandon() {
  if (const auto& lost = cycle_.state().in_flight) {
    undone_.push_back({StrategyEvent::Kind::kAbandon, lost->exchange});
  }
  cycle_.abandon();
}

void Pacing::abandon(const Plan::DueMerge& merge) {
  undone_.push_back({StrategyEvent::Kind::kAbandon, merge.exchange});
}

// A start that was put off, and that others have begun and given up, is skipped.
Plan Pacing::enter_view(std::int64_t first) {
  const std::optional<CycleState::PutOff> due = cycle_.state().put_off;
  if (due && due->then == Plan::Then::kStart && due->exchange < first) {
    undone_.push_back({StrategyEvent::Kind::kAbandon, due->exchange});
  }
  return cycle_.enter_view(first);
}

State Pacing::state() const {
  State state;
  if (schedule_.options().kind == ScheduleKind::kPlateau) save(schedule_.state(), state);
  save(cycle_.state(), state);
  return state;
}

void Pacing::load_state(const State& state) {
  // None from a run of another schedule: this one begins as its options say.
  if (state.contains("schedule.best")) schedule_.load_state(plateau_in(state));
  cycle_.load_state(cycle_in(state));
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

}  // namespace daso
