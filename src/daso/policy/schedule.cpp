// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/schedule.h"

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"

namespace daso {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kWarmup:
      return "warmup";
    case Phase::kCycling:
      return "cycling";
    case Phase::kCooldown:
      break;
  }
  return "cooldown";
}

void validate(const Phases& phases) {
  require(phases.epochs >= 1, "a run has at least 1 epoch, got {}", phases.epochs);
  require(phases.warmup >= 0, "warm-up takes 0 epochs or more, got {}", phases.warmup);
  require(phases.cooldown >= 0, "cool-down takes 0 epochs or more, got {}", phases.cooldown);
}

Phase phase_of(const Phases& phases, int epoch) {
  if (epoch >= phases.epochs - phases.cooldown) return Phase::kCooldown;
  return epoch < phases.warmup ? Phase::kWarmup : Phase::kCycling;
}

void validate(const Cadence& cadence) {
  require(cadence.skip >= 1, "skip must be at least 1, got {}", cadence.skip);
  require(cadence.wait >= 1 && cadence.wait <= cadence.skip,
          "wait must lie in 1 ... skip ({}), got {}: more than one exchange in flight diverges",
          cadence.skip, cadence.wait);
}

void validate(const RateOptions& options) {
  require(options.skip >= 1, "skip must be at least 1, got {}", options.skip);
  require(std::isfinite(options.alpha) && options.alpha > 0,
          "alpha must be a learning rate above 0, got {}; the schedule's peak is a good one",
          options.alpha);
}

std::int64_t period(const RateOptions& options, const StepInfo& info) {
  const double next = info.next_rate.value_or(info.rate);
  require(std::isfinite(info.rate) && std::isfinite(next),
          "the learning rate of step {} is {} and of the next {}; the rate schedule needs finite "
          "ones",
          info.step, info.rate, next);
  if (next > info.rate) return options.skip;
  if (info.rate <= 0) return info.last + 1;
  const double ratio = options.alpha / info.rate;
  const double steps = std::floor(ratio * ratio);
  // In double, since to convert a number that does not fit is undefined.
  if (steps >= static_cast<double>(kEndless)) return kEndless;
  return std::max<std::int64_t>(options.skip, static_cast<std::int64_t>(steps));
}

Cadence after_stall(const Cadence& now, const Cadence& initial) {
  if (now.skip == 1) return initial;
  return {.skip = std::max(1, now.skip / 2), .wait = std::max(1, now.wait / 2)};
}

namespace {

constexpr Cadence kNone{.skip = 0, .wait = 0};

void validate(const ScheduleOptions& options) {
  if (options.kind == ScheduleKind::kListed) {
    require(!options.listed.empty(), "a listed schedule has at least 1 epoch, got none");
    for (const EpochPlan& plan : options.listed) {
      if (!is_blocking(plan.phase)) validate(plan.cadence);
    }
    return;
  }
  validate(options.phases);
  validate(options.cadence);
  if (options.kind == ScheduleKind::kPlateau) validate(options.stall);
  if (options.kind == ScheduleKind::kRate) {
    validate(RateOptions{.skip = options.cadence.skip, .alpha = options.alpha});
  }
}

}  // namespace

std::vector<std::string> schedule_names() { return {"rate", "plateau", "fixed"}; }

std::string name_of(ScheduleKind kind) {
  if (kind == ScheduleKind::kListed) return "listed";
  return schedule_names().at(static_cast<std::size_t>(kind));
}

ScheduleKind schedule_kind_of(const std::string& name) {
  const std::vector<std::string> names = schedule_names();
  const auto found = std::find(names.begin(), names.end(), name);
  DASO_ASSERT(found != names.end());
  return static_cast<ScheduleKind>(found - names.begin());
}

Schedule::Schedule(ScheduleOptions options)
    : options_(std::move(options)), state_{.stall = {}, .cadence = options_.cadence} {
  validate(options_);
}

int Schedule::epochs() const {
  return options_.kind == ScheduleKind::kListed ? static_cast<int>(options_.listed.size())
                                                : options_.phases.epochs;
}

EpochPlan Schedule::epoch(int epoch) const {
  DASO_ASSERT(epoch >= 0 && epoch < epochs());
  if (options_.kind == ScheduleKind::kListed) {
    return options_.listed[static_cast<std::size_t>(epoch)];
  }
  const Phase phase = phase_of(options_.phases, epoch);
  return {.phase = phase, .cadence = is_blocking(phase) ? kNone : state_.cadence};
}

std::int64_t Schedule::round(const StepInfo& info) const {
  if (options_.kind != ScheduleKind::kRate) return epoch(info.epoch).cadence.skip;
  return period({.skip = options_.cadence.skip, .alpha = options_.alpha}, info);
}

void Schedule::end_epoch(int epoch, double loss) {
  if (options_.kind != ScheduleKind::kPlateau) return;
  const Phase phase = phase_of(options_.phases, epoch);
  const bool last_warmup = phase == Phase::kWarmup && epoch + 1 == options_.phases.warmup;
  if (phase != Phase::kCycling && !last_warmup) return;
  if (stalls(options_.stall, state_.stall, loss)) {
    state_.cadence = after_stall(state_.cadence, options_.cadence);
  }
}

void Schedule::load_state(const PlateauState& state) {
  if (options_.kind == ScheduleKind::kPlateau) state_ = state;
}

}  // namespace daso
