// SPDX-License-Identifier: Apache-2.0
#include "daso/global/trajectory.h"

#include "daso/base/error.h"

namespace daso {
namespace {

EpochTrajectory epoch_of(const Schedule& schedule, Cycle& cycle, const Course& course, int epoch) {
  EpochTrajectory done{.plan = schedule.epoch(epoch)};
  for (std::int64_t batch = 0; batch < course.batches; ++batch) {
    const When when = course.at(epoch, batch);
    const Plan plan = cycle.after_step(schedule, when);
    if (plan.then == Plan::Then::kNothing) continue;
    ++done.exchanges;
    if (plan.then == Plan::Then::kAgree)
      ++done.agreements;
    else
      done.starts.push_back({.step = when.step, .skip = plan.skip});
  }
  return done;
}

}  // namespace

std::vector<EpochTrajectory> trajectory_of(Schedule schedule, Cycle cycle, const Course& course,
                                           const EpochLoss& loss) {
  DASO_ASSERT(course.epochs == schedule.epochs());
  require(course.batches >= 1, "an epoch has at least 1 step, got {}", course.batches);
  std::vector<EpochTrajectory> epochs;
  for (int epoch = 0; epoch < schedule.epochs(); ++epoch) {
    epochs.push_back(epoch_of(schedule, cycle, course, epoch));
    schedule.end_epoch(epoch, loss(epoch));
  }
  return epochs;
}

}  // namespace daso
