// SPDX-License-Identifier: Apache-2.0
#include "daso/global/trajectory.h"

#include "daso/base/error.h"

namespace daso {
namespace {

EpochTrajectory epoch_of(const Schedule& schedule, Cycle& cycle, const Course& course, int epoch) {
  EpochTrajectory done{.plan = schedule.epoch(epoch)};
  const std::int64_t steps = schedule.epochs() * course.batches;
  for (std::int64_t batch = 0; batch < course.batches; ++batch) {
    When when{.epoch = epoch,
              .step = epoch * course.batches + batch,
              .batch = batch,
              .last = course.batches - 1};
    when.rate = course.rate(when.step);
    if (when.step + 1 < steps) when.next_rate = course.rate(when.step + 1);
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

std::vector<EpochTrajectory> trajectory_of(Schedule schedule, Cycle cycle, const Course& course) {
  require(course.batches >= 1, "an epoch has at least 1 step, got {}", course.batches);
  std::vector<EpochTrajectory> epochs;
  for (int epoch = 0; epoch < schedule.epochs(); ++epoch) {
    epochs.push_back(epoch_of(schedule, cycle, course, epoch));
    schedule.end_epoch(epoch, course.loss(epoch));
  }
  return epochs;
}

}  // namespace daso
