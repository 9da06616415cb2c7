// SPDX-License-Identifier: Apache-2.0
#include "bench/train_bench.h"

#include <ATen/ATen.h>

#include <utility>

#include "bench/statistics.h"
#include "daso/nets/network.h"
#include "daso/tensor/device.h"

namespace daso::bench {
namespace {

std::shared_ptr<Network> network_on(const TrainJob& job, c10::Device device) {
  at::manual_seed(job.run.seed);
  std::shared_ptr<Network> network = make_network(job.network);
  network->to(device);
  network->train();
  return network;
}

// Noise, with classes or next tokens that are noise, too.
Batch synthetic_batch(const TrainJob& job, c10::Device device) {
  const NetworkOptions& shape = job.network;
  const std::int64_t examples = std::int64_t{job.run.batch_size} * job.run.accumulate;
  if (shape.text) {
    const at::Tensor tokens = at::randint(shape.classes, {examples, shape.width + 1}, at::kLong);
    return {tokens.narrow(1, 0, shape.width).contiguous().to(device),
            tokens.narrow(1, 1, shape.width).contiguous().to(device)};
  }
  return {at::randn({examples, shape.channels, shape.height, shape.width}).to(device),
          at::randint(shape.classes, {examples}, at::kLong).to(device)};
}

}  // namespace

TrainBench::TrainBench(World& world, c10::Device device, TrainJob job)
    : world_(world),
      device_(device),
      stream_(device),
      job_(std::move(job)),
      network_(network_on(job_, device)),
      model_(network_),
      optimizer_(make_optimizer(model_, optimizer_options(job_.run))),
      strategy_(make_strategy(world, model_, *optimizer_, job_.strategy)),
      compute_(job_.run, task_, *network_, model_, world.timeline(), world.rank() == 0),
      batch_(synthetic_batch(job_, device)) {
  if (job_.run.precision == Precision::kFp16) scaler_.emplace();
}

TrainBench::~TrainBench() = default;

TrainResult TrainBench::measure() {
  Communicator& everyone = world_.everyone();
  go_on(job_.warmup_steps);
  // Where it lies no copy is needed, as with PyTorch's graphs.
  const std::optional<Batch> place = compute_.graph_input();
  if (place) batch_ = *place;
  strategy_->settle();
  finish_on(device_);
  everyone.barrier().wait(world_.limit());
  const auto start = Clock::now();
  go_on(job_.steps);
  strategy_->settle();
  finish_on(device_);
  everyone.barrier().wait(world_.limit());
  const double seconds = since(start).count() / job_.steps;
  TrainResult result{.seconds = over_ranks(everyone, seconds, world_.limit()).largest,
                     .loss = loss_.item<double>(),
                     .graph = place.has_value(),
                     .parameters = model_.elements()};
  result.device_bytes = peak_bytes(device_).value_or(0);
  return result;
}

void TrainBench::go_on(int steps) {
  for (const std::int64_t end = done_ + steps; done_ < end; ++done_) {
    step(job_.run_plan.at(/*epoch=*/0, done_));
  }
}

void TrainBench::step(const StepInfo& info) {
  const Span span(world_.timeline(), Track::kTraining, "step", info.step);
  StepCalls calls{.begin_backward = [&] { strategy_->begin_backward(info); }};
  if (scaler_) calls.loss_scale = scaler_->scale();
  loss_ = compute_(batch_, info.step, calls);
  strategy_->before_step();
  if (!scaler_ || scaler_->unscale(model_)) optimizer_->step(info.rate);
  strategy_->after_step(info);
}

}  // namespace daso::bench
