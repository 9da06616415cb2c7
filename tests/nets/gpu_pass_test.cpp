// SPDX-License-Identifier: Apache-2.0
// What a GPU computes with, computed with on the CPU: the passes are the same.
#include "daso/nets/gpu_pass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>

#include "daso/nets/network.h"
#include "daso/run/loss.h"
#include "daso/run/precision.h"
#include "daso/tensor/bf16.h"
#include "nets/known_networks.h"

namespace daso::test {
namespace {

// Before anything computes in bf16, which may trap.
const bool kCapped = (cap_instruction_sets(), true);

const NetworkOptions kCnn{.name = "cnn", .channels = 1, .height = 8, .width = 8, .classes = 4};
const NetworkOptions kResnet{.name = "resnet20", .height = 8, .width = 8, .classes = 4};
const NetworkOptions kTransformer{
    .name = "transformer", .text = true, .width = 6, .classes = 5, .transformer = {2, 16, 2}};

Batch batch_for(const NetworkOptions& options) {
  const Examples examples = examples_for(options, /*batch=*/4);
  return {options.text ? examples.inputs : examples.inputs.to(at::kFloat), examples.labels};
}

at::Tensor bf16_loss(Network& network, const Batch& batch) {
  std::optional<Autocast> autocast(Precision::kBf16);
  const at::Tensor scores = network.forward(batch.inputs).to(at::kFloat);
  autocast.reset();
  return training_loss(scores, batch.labels, /*smoothing=*/0);
}

at::Tensor gradients_by_autocast(const NetworkOptions& options) {
  const std::shared_ptr<Network> network = make_network(options);
  fill(*network);
  FlatModel model(network);
  bf16_loss(*network, batch_for(options)).backward();
  return model.gradients().clone();
}

struct Passed {
  at::Tensor gradients;
  std::int64_t batches = 0;  // that the first BatchNorm has counted
};

Passed gradients_by_pass(const NetworkOptions& options, int passes = 1) {
  const std::shared_ptr<Network> network = make_network(options);
  fill(*network);
  FlatModel model(network);
  model.gradients().narrow(0, 0, model.elements()).fill_(7);  // must not stay
  GpuPass pass(*network, model, at::kBFloat16);
  Passed result;
  for (int i = 0; i < passes; ++i) {
    at::Tensor loss;
    {
      const GpuPass::Use use(pass);
      loss = bf16_loss(*network, batch_for(options));
      pass.count_batch();
    }
    pass.store(torch::autograd::grad({loss}, pass.inputs(), {}, std::nullopt, false, true), i > 0);
  }
  model.check();
  const auto buffers = model.named_buffers();
  if (buffers.contains("bn1.num_batches_tracked")) {
    result.batches = buffers.at("bn1.num_batches_tracked").item<std::int64_t>();
  }
  result.gradients = model.gradients().clone();
  return result;
}

double difference(const at::Tensor& ours, const at::Tensor& theirs) {
  return ((ours - theirs).norm() / theirs.norm()).item<double>();
}

TEST(GpuPass, GivesTheGradientsThatAutocastGives) {
  // The order of memory and where it begins decide which of oneDNN's programs compute, and bf16
  // keeps 8 bits.
  for (const NetworkOptions& options : {kTransformer, kCnn, kResnet}) {
    EXPECT_LT(difference(gradients_by_pass(options).gradients, gradients_by_autocast(options)),
              0.02)
        << options.name;
  }
}

TEST(GpuPass, AddsWhatFurtherPassesGive) {
  const at::Tensor once = gradients_by_pass(kTransformer).gradients;
  EXPECT_TRUE(at::equal(gradients_by_pass(kTransformer, /*passes=*/2).gradients, once * 2));
}

TEST(GpuPass, CountsEveryBatchOnce) {
  const std::int64_t before = [] {
    const std::shared_ptr<Network> network = make_network(kCnn);
    fill(*network);
    return network->named_buffers()["bn1.num_batches_tracked"].item<std::int64_t>();
  }();
  EXPECT_EQ(gradients_by_pass(kCnn, /*passes=*/3).batches, before + 3);
}

TEST(GpuPass, LeavesTheLayersAsTheyWere) {
  const std::shared_ptr<Network> network = make_network(kCnn);
  FlatModel model(network);
  GpuPass pass(*network, model, at::kBFloat16);
  const Batch batch = batch_for(kCnn);
  const at::Tensor before = bf16_loss(*network, batch);
  { const GpuPass::Use use(pass); }
  model.check();
  bf16_loss(*network, batch).backward();
  EXPECT_GT(model.gradients().norm().item<double>(), 0);
}

// Two layers that share a weight; one uses it in a way that no copy stands for.
class Tied : public torch::nn::Module {
 public:
  Tied() { register_module("layer", layer_); }
  at::Tensor forward(const at::Tensor& inputs, const at::Tensor& weight) {
    return (layer_(inputs).to(at::kFloat) + inputs.matmul(weight.t())).sum();
  }
  torch::nn::Linear layer_{torch::nn::LinearOptions(2, 1).bias(false)};
};

TEST(GpuPass, AddsUpTheGradientsOfACopyAndItsParameter) {
  const auto module = std::make_shared<Tied>();
  FlatModel model(module);
  const at::Tensor weight = model.parameter(0);
  GpuPass pass(*module, model, at::kBFloat16);
  const at::Tensor inputs = at::tensor({1.0F, 3.0F}).view({1, 2});
  at::Tensor loss;
  {
    const GpuPass::Use use(pass);
    const Autocast autocast(Precision::kBf16);
    loss = module->forward(inputs, weight);
  }
  pass.store(torch::autograd::grad({loss}, pass.inputs(), {}, std::nullopt, false, true), false);
  EXPECT_TRUE(at::equal(weight.grad(), 2 * inputs));
}

}  // namespace
}  // namespace daso::test
