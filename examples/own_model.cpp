// SPDX-License-Identifier: Apache-2.0
// A model and data of our own, trained by all ranks together:
//   daso run --nodes 2 --ranks-per-node 2 -- ./own_model
// leaves metrics, a trace and a report in runs/own_model, or in the folder that is given.
#include <daso/comm/no_reverse_lookup.h>
#include <daso/comm/world.h>
#include <daso/optim/sgd.h>
#include <daso/record/record.h>
#include <daso/run/rank_device.h>
#include <daso/strategy/strategy.h>
#include <torch/torch.h>

int train(daso::World& world, const char* folder) {
  // On GPUs: = daso::told_device(world, {}), which gives each rank one where there are any.
  const torch::Device device = torch::kCPU;
  // Points in a square, other ones on every rank. Does a point lie in the circle?
  torch::manual_seed(world.rank());
  const auto points = (torch::rand({4096, 2}) * 2 - 1).to(device);
  const auto inside = (points.norm(2, 1) < 0.7).to(torch::kLong);

  torch::nn::Sequential net(torch::nn::Linear(2, 64), torch::nn::ReLU(), torch::nn::Linear(64, 2));
  net->to(device);
  daso::FlatModel model(net.ptr());
  daso::Sgd optimizer(model, {.momentum = 0.9});
  const daso::RunPlan run_plan{
      .epochs = 20,
      .batches = 64,
      .rate = daso::rate_of({.peak = 0.2, .warmup_steps = 64, .steps = 1280})};
  const auto preset = daso::default_preset(world.topology().nodes());
  const auto strategy = make_strategy(world, model, optimizer, options_of(preset, run_plan));
  daso::Record record(world, *strategy,
                      {.folder = folder, .epochs = run_plan.epochs, .batch_size = 64});

  for (int epoch = 0; epoch < run_plan.epochs; ++epoch) {
    double sum = 0;
    for (int batch = 0; batch < run_plan.batches; ++batch) {
      const daso::StepInfo info = run_plan.at(epoch, batch);
      const auto rows = torch::randint(points.size(0), {64});
      model.zero_gradients();
      strategy->begin_backward(info);  // gradients are averaged while backward runs
      const auto loss =
          torch::cross_entropy_loss(net->forward(points.index({rows})), inside.index({rows}));
      loss.backward();
      strategy->before_step();
      optimizer.step(info.rate);
      const auto done = strategy->after_step(info);  // parameters are exchanged in the background
      record.step(info, loss.item<double>(), done);
      sum += loss.item<double>();
    }
    const double mean = strategy->mean_loss(epoch, sum / static_cast<double>(run_plan.batches));
    strategy->end_epoch(epoch, mean);
    record.end_epoch(mean);
    if (world.rank() == 0) std::printf("epoch %2d  loss %.4f\n", epoch, mean);
  }
  record.finish();
  return 0;
}

int main(int arguments, char** argument) {
  const char* folder = arguments > 1 ? argument[1] : "runs/own_model";
  return daso::rank_main([&](daso::World& world) { return train(world, folder); });
}
