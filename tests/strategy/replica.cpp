// SPDX-License-Identifier: Apache-2.0
#include "replica.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

namespace daso::test {
namespace {

double constant_rate(std::int64_t) { return 0.1; }

}  // namespace

Weights::Weights(const std::vector<std::int64_t>& sizes)
    : module(std::make_shared<torch::nn::Module>("Weights")) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const at::Tensor values = at::sin(at::arange(sizes[i], at::kFloat));
    tensors.push_back(module->register_parameter(fmt::format("w{}", i), values));
  }
}

at::Tensor pull(const at::Tensor& value, int rank, std::int64_t step) {
  const at::Tensor target = at::cos(at::arange(value.numel(), at::kFloat) * (rank + 1) + step);
  return 0.5 * (value - target);
}

Job job_of(const std::string& strategy, int epochs, std::int64_t batches) {
  Job job;
  job.options.name = strategy;
  job.options.schedule = {.kind = ScheduleKind::kFixed,
                          .phases = {.epochs = epochs},
                          .cadence = {.skip = 4, .wait = 2}};
  job.options.bucket_elements = 600;
  job.run_plan = {.epochs = epochs, .batches = batches, .rate = constant_rate};
  return job;
}

RankOptions ranks_of(const Job& job) {
  return {.ranks = static_cast<int>(job.nodes.size()), .nodes = job.nodes};
}

Replica::Replica(World& world, const Job& job)
    : weights(job.sizes),
      model(weights.module),
      optimizer(model, {.momentum = job.momentum}),
      strategy(make_strategy(world, model, optimizer, job.options)),
      rank(world.rank()) {}

void Replica::step(const Job& job, const StepInfo& info) {
  model.zero_gradients();
  strategy->begin_backward(info);
  at::Tensor loss = at::zeros({});
  for (const at::Tensor& tensor : weights.tensors) {
    loss = loss + (tensor * job.gradient(tensor.detach(), rank, info.step)).sum();
  }
  loss.backward();
  strategy->before_step();
  optimizer.step(info.rate);
  strategy->after_step(info);
}

void train(World& world, const Job& job, Replica& replica, std::int64_t from) {
  for (int epoch = 0; epoch < job.run_plan.epochs; ++epoch) {
    for (std::int64_t batch = 0; batch < job.run_plan.batches; ++batch) {
      const StepInfo info = job.run_plan.at(epoch, batch);
      if (info.step < from) continue;
      replica.step(job, info);
      if (job.after) job.after(world, replica.model, *replica.strategy, replica.optimizer, info);
      if (batch == info.last)
        replica.strategy->end_epoch(epoch, replica.strategy->mean_loss(epoch, 1.0));
    }
  }
}

std::vector<at::Tensor> results_of(const Job& job) {
  std::vector<at::Tensor> results(job.nodes.size());
  run_ranks(ranks_of(job), [&](World& world) {
    Replica replica(world, job);
    train(world, job, replica);
    results[static_cast<std::size_t>(world.rank())] = replica.model.parameters().clone();
  });
  return results;
}

at::Tensor alone(const Job& job, const std::vector<int>& ranks) {
  Job single = job;
  single.options.name = "none";
  single.gradient = [&](const at::Tensor& value, int, std::int64_t step) {
    at::Tensor sum = at::zeros_like(value, at::kDouble);
    for (const int rank : ranks) sum += job.gradient(value, rank, step);
    return (sum / static_cast<double>(ranks.size())).to(at::kFloat);
  };
  World world = World::alone();
  Replica replica(world, single);
  train(world, single, replica);
  return replica.model.parameters().clone();
}

}  // namespace daso::test
