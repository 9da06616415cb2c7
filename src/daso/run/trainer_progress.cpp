// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <csignal>

#include "daso/base/error.h"
#include "daso/run/trainer_body.h"

namespace daso {
namespace {

constexpr int kSignalBase = 128;

}  // namespace

void Trainer::Body::record_step(std::int64_t step) {
  if (!options.trace) return;
  world.timeline().record(step >= options.trace->first && step < options.trace->end);
}

Progress Trainer::Body::progress(const StepInfo& info) const {
  Progress now = meter.progress(info, run_plan.epochs);
  now.loss = tally.loss.value();
  return now;
}

Summary Trainer::Body::finish() {
  meter.start();
  if (place != saved) checkpoint(place);
  {
    const TimedSpan span(world.timeline(), Track::kCheckpoint, "finish", place.step);
    checkpoints.finish();
  }
  meter.stop();
  Summary summary = meter.summary();
  summary.strategy = options.strategy;
  summary.epochs = place.epoch;
  summary.steps = place.step;
  summary.exchanges = tally.exchanges;
  summary.staleness_mean = tally.staleness.value();
  summary.skipped_steps = tally.skipped_steps;
  summary.train_loss = tally.train_loss;
  summary.test_loss = tally.score.loss;
  summary.test_accuracy = tally.score.accuracy;
  if (options.skip_bad_images) summary.bad_images = bad_images();
  summary.exit = interrupted && interrupted() == SIGINT ? kSignalBase + SIGINT : kExitOk;
  summary.out = options.out.string();
  if (trace) trace->write(options.out / "trace.json", meter.late());
  return summary;
}

// Of all ranks.
std::int64_t Trainer::Body::bad_images() {
  const at::Tensor sum = at::full({1}, data.train->bad_files() + data.test->bad_files(), at::kLong);
  return world.everyone().all_reduce(sum, Reduce::kSum).wait(world.limit()).item<std::int64_t>();
}

}  // namespace daso
