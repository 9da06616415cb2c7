// SPDX-License-Identifier: Apache-2.0
#include "daso/run/session_record.h"

#include <ATen/ATen.h>

#include <cmath>

#include "daso/tensor/device.h"

namespace daso {
namespace {

constexpr std::int64_t kReadLossEvery = 10;  // steps, on a device; those that metrics.jsonl records

std::int64_t samples_per_step(const World& world, const Settings& settings) {
  return std::int64_t{settings.batch_size} * settings.accumulate * world.size();
}

}  // namespace

SessionRecord::SessionRecord(World& world, const Run& run, const Strategy& strategy)
    : world_(world), run_(run), meter_(world, strategy, samples_per_step(world, run.settings())) {
  if (run.settings().trace) trace_.emplace(world);
  if (!run.device().is_cpu() && world.rank() == 0) gpu_load_.emplace(gpu_of(run.device()).bus);
}

void SessionRecord::begin_step(std::int64_t step) {
  const std::optional<StepRange>& traced = run_.settings().trace;
  if (traced) world_.timeline().record(step >= traced->first && step < traced->end);
}

Progress SessionRecord::progress(const StepInfo& info, const RunPlan& plan) {
  const bool recorded = info.step % kReadLossEvery == 0 || info.batch == info.last;
  if (run_.model().parameters().is_cpu() || recorded) {
    world_.wait_for(run_.device(), "computing a step");  // whose loss is read
    const EpochLoss& loss = run_.tally().loss;
    loss_ = {.sum = loss.sum(), .number = loss.steps()};
  }
  Progress now = meter_.progress(info, plan.epochs);
  now.steps = plan.end();
  now.loss = loss_.value();
  now.own_loss = loss_;
  now.device_bytes = peak_bytes(run_.device());
  if (gpu_load_) now.device_share = gpu_load_->share();
  return now;
}

Summary SessionRecord::summary() {
  const Settings& settings = run_.settings();
  const Tally& tally = run_.tally();
  Summary summary = meter_.summary();
  summary.strategy = settings.strategy;
  summary.epochs = run_.place().epoch;
  summary.steps = run_.place().step;
  summary.exchanges = tally.exchanges;
  summary.staleness_mean = tally.staleness.value();
  summary.skipped_steps = tally.skipped_steps;
  summary.train_loss = tally.train_loss;
  const bool epoch_is_over = run_.place().epoch > 0 || run_.finished();
  summary.evaluated =
      epoch_is_over && (has_accuracy(tally.score) || !std::isnan(tally.score.loss));
  summary.test_loss = tally.score.loss;
  summary.test_accuracy = tally.score.accuracy;
  summary.top5 = tally.score.top5;
  const std::shared_ptr<const Dataset>& test = run_.data().test;
  if (test && test->shape().kind == InputKind::kText) {
    summary.perplexity = perplexity_of(tally.score.loss);
  }
  if (settings.skip_bad_images) summary.bad_images = bad_images();
  if (world_.view()) summary.unseen_examples = tally.unseen_examples;
  summary.finished = run_.finished();
  summary.out = settings.out.string();
  if (trace_) trace_->write(settings.out / "trace.json", meter_.late());
  return summary;
}

std::int64_t SessionRecord::bad_images() const {
  const Datasets& data = run_.data();
  const at::Tensor sum = at::full({1}, data.train->bad_files() + data.test->bad_files(), at::kLong);
  return world_.everyone().all_reduce(sum, Reduce::kSum).wait(world_.limit()).item<std::int64_t>();
}

}  // namespace daso
