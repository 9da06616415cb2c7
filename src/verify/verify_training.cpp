// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "daso/base/error.h"
#include "daso/comm/gather_text.h"
#include "daso/kernels/digest.h"
#include "daso/optim/sgd.h"
#include "daso/policy/run_plan.h"
#include "daso/tensor/lane.h"
#include "daso/tensor/large_tensor.h"
#include "verify/training_check.h"
#include "verify/verdict.h"

namespace daso::verify {
namespace {

at::Tensor tensor_of(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).to(at::kFloat);
}

// 1/2 sum of curvature (x - target)^2
class Quadratic : public torch::nn::Module {
 public:
  Quadratic(at::Tensor start, at::Tensor curvature, at::Tensor target)
      : x_(register_parameter("x", std::move(start))),
        curvature_(std::move(curvature)),
        target_(std::move(target)) {}

  at::Tensor loss() const { return (curvature_ * (x_ - target_).square()).sum() * 0.5; }

 private:
  at::Tensor x_;
  const at::Tensor curvature_;
  const at::Tensor target_;
};

std::shared_ptr<Quadratic> model_of(const TrainingCase& training, int rank, at::Device device) {
  // Only rank 0 begins where the case says; the others must be given its parameters.
  const at::Tensor start = rank == 0 ? tensor_of(training.start)
                                     : at::full({std::ssize(training.start)}, rank, at::kFloat);
  const at::Tensor target = tensor_of(training.targets[static_cast<std::size_t>(rank)]);
  return std::make_shared<Quadratic>(start.to(device), tensor_of(training.curvature).to(device),
                                     target.to(device));
}

std::vector<std::uint64_t> gather_digests(World& world, const at::Tensor& parameters) {
  const auto own = static_cast<std::int64_t>(digest_of(host_floats(parameters)));
  const at::Tensor all =
      world.everyone()
          .all_gather(at::full({1}, own, at::kLong), at::empty({world.size()}, at::kLong))
          .wait(world.limit());
  const auto* first = all.const_data_ptr<std::int64_t>();
  return {first, first + all.numel()};
}

void expect_topology(const World& world, const TrainingCase& training) {
  const Topology& topology = world.topology();
  bool fits = topology.nodes() == static_cast<int>(training.nodes.size());
  int rank = 0;
  for (std::size_t node = 0; fits && node < training.nodes.size(); ++node) {
    for (int local = 0; local < training.nodes[node]; ++local) {
      fits = fits && topology.node_of(rank++) == static_cast<int>(node);
    }
  }
  DASO_ASSERT(fits && rank == world.size());
}

}  // namespace

Verdict verify_training(World& world, const TrainingCase& training, ExchangeKind exchange,
                        Wire wire, at::Device device) {
  expect_topology(world, training);
  const auto module = model_of(training, world.rank(), device);
  const TrainingStream stream(device);
  FlatModel model(module);
  Sgd optimizer(model, {.weight_decay = training.weight_decay, .momentum = training.momentum});
  const auto strategy =
      make_strategy(world, model, optimizer,
                    {.name = "daso",
                     .schedule = training.schedule,
                     .exchange = {.kind = exchange, .wire = wire, .merge = training.merge}});
  const RunPlan run_plan{.epochs = training.epochs(),
                         .batches = training.batches,
                         .rate = [&](std::int64_t) { return training.rate; }};
  TrainingCheck check(training, wire, world.rank());
  const auto parameters = [&] {
    return model.parameters().narrow(0, 0, std::ssize(training.start)).cpu();
  };
  for (int epoch = 0; epoch < run_plan.epochs; ++epoch) {
    double loss = 0;
    for (std::int64_t batch = 0; batch < run_plan.batches; ++batch) {
      const StepInfo info = run_plan.at(epoch, batch);
      model.zero_gradients();
      strategy->begin_backward(info);
      const at::Tensor value = module->loss();
      value.backward();
      strategy->before_step();
      optimizer.step(info.rate);
      const StrategyEvents done = strategy->after_step(info);
      const at::Tensor now = parameters();
      check.step(info.step, strategy->status().phase, done, host_floats(now));
      loss += value.item<double>();
    }
    strategy->end_epoch(epoch,
                        strategy->mean_loss(epoch, loss / static_cast<double>(run_plan.batches)));
    check.epoch(epoch, run_plan.batches * (epoch + 1) - 1, gather_digests(world, parameters()));
  }
  check.finish();
  Verdict together;
  for (const std::string& one :
       gather_text(world.everyone(), text_of(check.verdict()), world.limit())) {
    together.add(verdict_in(one));
  }
  return together;
}

}  // namespace daso::verify
