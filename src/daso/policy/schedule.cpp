// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/schedule.h"

#include <algorithm>

#include "daso/base/error.h"

namespace daso {
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
