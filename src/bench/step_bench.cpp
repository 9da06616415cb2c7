// SPDX-License-Identifier: Apache-2.0
#include "bench/step_bench.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <ctime>
#include <optional>
#include <utility>

#include "bench/statistics.h"
#include "daso/record/trace.h"
#include "daso/tensor/device.h"
#include "daso/tensor/lane.h"

namespace daso::bench {
namespace {

constexpr double kMomentum = 0.9;

double process_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

StepBench::StepBench(World& world, StepJob job)
    : world_(world),
      job_(std::move(job)),
      work_(job_.model),
      model_(work_.module()),
      optimizer_(model_, {.momentum = kMomentum}),
      strategy_(make_strategy(world, model_, optimizer_, job_.strategy)) {}

StepResult StepBench::measure() {
  std::optional<Trace> trace;
  if (!job_.trace.empty()) trace.emplace(world_);
  Communicator& everyone = world_.everyone();
  const TrainingStream stream(job_.model.device);
  go_on(job_.warmup_steps);
  strategy_->settle();
  finish_on(job_.model.device);
  world_.timeline().record(trace.has_value());
  everyone.barrier().wait(world_.limit());
  const Costs before = strategy_->costs();
  const double waited_before = world_.timeline().waited();
  const double cpu_before = process_cpu_seconds();
  const auto start = Clock::now();
  go_on(job_.steps);
  strategy_->settle();
  finish_on(job_.model.device);
  everyone.barrier().wait(world_.limit());
  const double seconds = since(start).count();
  const double cpu = process_cpu_seconds() - cpu_before;
  const Costs after = strategy_->costs();
  const double waited = world_.timeline().waited() - waited_before;

  world_.timeline().record(false);
  if (trace) trace->write(job_.trace, {});
  const std::int64_t bytes = after.bytes_between_nodes - before.bytes_between_nodes;
  return {.seconds = over_ranks(everyone, seconds / job_.steps, world_.limit()).largest,
          .wait_seconds = over_ranks(everyone, waited / job_.steps, world_.limit()).mean,
          .cpu_seconds = over_ranks(everyone, cpu / job_.steps, world_.limit()).mean,
          .bytes_between_nodes = static_cast<double>(most_of_a_node(bytes)) / job_.steps};
}

void StepBench::go_on(int steps) {
  for (const std::int64_t end = done_ + steps; done_ < end; ++done_) {
    const std::int64_t batches = job_.run_plan.batches;
    const StepInfo info = job_.run_plan.at(static_cast<int>(done_ / batches), done_ % batches);
    step(info);
    if (info.batch == info.last)
      strategy_->end_epoch(info.epoch, strategy_->mean_loss(info.epoch, /*loss=*/0));
  }
}

void StepBench::step(const StepInfo& info) {
  const Span span(world_.timeline(), Track::kTraining, "step", done_);
  model_.zero_gradients();
  const at::Tensor loss =
      work_.forward(pace_of(job_.pace, world_.topology().nodes(), world_.node(), done_));
  strategy_->begin_backward(info);
  loss.backward();
  strategy_->before_step();
  optimizer_.step(info.rate);
  strategy_->after_step(info);
}

std::int64_t StepBench::most_of_a_node(std::int64_t own) {
  at::Tensor sent = at::zeros({world_.topology().nodes()}, at::kLong);
  sent[world_.node()] = own;
  return world_.everyone()
      .all_reduce(std::move(sent), Reduce::kSum)
      .wait(world_.limit())
      .max()
      .item<std::int64_t>();
}

}  // namespace daso::bench
