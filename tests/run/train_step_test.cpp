// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train_step.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "daso/nets/network.h"

namespace daso::test {
namespace {

// w * x, with the loss (w x - y)^2: its derivative by w is 2 x (w x - y).
struct Line {
  explicit Line(Settings the_settings = {}) : settings(std::move(the_settings)), model(net.ptr()) {
    const at::NoGradGuard no_grad;
    net->weight.fill_(3);
    task.module = net;
    task.loss = [this](const Batch& one) {
      events.push_back("forward");
      return at::mse_loss(net(one.inputs), one.labels);
    };
    network = network_of(task);
  }

  double step(const StepCalls& calls = {}) {
    TrainStep compute(settings, task, *network, model, timeline, /*tells=*/false);
    return compute(batch, /*step=*/0, calls).item<double>();
  }
  double gradient() const { return model.gradients()[0].item<double>(); }

  Settings settings;
  torch::nn::Linear net{torch::nn::LinearOptions(1, 1).bias(false)};
  FlatModel model;
  Task task;
  std::shared_ptr<Network> network;
  Timeline timeline;
  Batch batch{at::tensor({1.0F, 2.0F}).view({2, 1}), at::tensor({1.0F, 10.0F}).view({2, 1})};
  std::vector<std::string> events;
};

// Of the examples: losses (3 - 1)^2 = 4 and (6 - 10)^2 = 16, derivatives 4 and -16.
TEST(TrainStep, GivesTheMeanLossAndItsGradients) {
  Line line;
  EXPECT_DOUBLE_EQ(line.step(), 10);
  EXPECT_DOUBLE_EQ(line.gradient(), -6);
  EXPECT_DOUBLE_EQ(line.step(), 10);
  EXPECT_DOUBLE_EQ(line.gradient(), -6) << "gradients of the step before were kept";
}

TEST(TrainStep, PartsOfABatchGiveTheSameMean) {
  Line line({.accumulate = 2});
  EXPECT_DOUBLE_EQ(line.step(), 10);
  EXPECT_DOUBLE_EQ(line.gradient(), -6);
}

TEST(TrainStep, ScalesTheGradientsAndNotTheLoss) {
  Line line;
  EXPECT_DOUBLE_EQ(line.step({.loss_scale = 8}), 10);
  EXPECT_DOUBLE_EQ(line.gradient(), -48);
}

TEST(TrainStep, DrawsBeforeEachPartAndBeginsBeforeTheLastBackward) {
  Line line({.accumulate = 2});
  line.step({.draw = [&](int part) { line.events.push_back("draw " + std::to_string(part)); },
             .begin_backward = [&] { line.events.emplace_back("begin"); }});
  EXPECT_EQ(line.events,
            (std::vector<std::string>{"draw 0", "forward", "begin", "draw 1", "forward"}));
}

TEST(TrainStep, SaysWhyThereIsNoGraph) {
  Task own;
  own.module = torch::nn::Linear(1, 1);
  EXPECT_EQ(why_no_graph({}, {}), "");
  EXPECT_EQ(why_no_graph({.accumulate = 4}, {}), "");
  EXPECT_EQ(why_no_graph({}, own),
            "a module or loss of one's own may compute otherwise from step to step; "
            "Task::capturable says that it does not");
  own.capturable = true;
  EXPECT_EQ(why_no_graph({}, own), "");
  EXPECT_EQ(why_no_graph({.sync_batchnorm = true}, {}),
            "--sync-batchnorm waits for other ranks in every layer");
  EXPECT_EQ(why_no_graph({.model = "transformer", .dropout = 0.1}, {}),
            "--dropout draws other numbers in every step");
  EXPECT_EQ(why_no_graph({.accumulate = 4}, own),
            "a module of one's own may draw anew for each part of --accumulate");
}

}  // namespace
}  // namespace daso::test
