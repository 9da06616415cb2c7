// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/trajectory.h"

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

std::vector<EpochTrajectory> trajectory_of(Schedule schedule, Cycle cycle, const RunPlan& run_plan,
                                           const EpochLoss& loss) {
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
