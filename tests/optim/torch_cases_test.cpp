// SPDX-License-Identifier: Apache-2.0
// Our optimizers against numbers that PyTorch's own came to (torch_cases.py), or the papers'
// formulas in double precision (layerwise_numbers.py).
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "bag.h"
#include "daso/optim/gradients.h"
#include "daso/optim/optimizer.h"

namespace daso {
namespace {

using nlohmann::json;

json cases_in(const char* path) {
  std::ifstream file(path);
  return json::parse(file);
}

Bag bag_of(const json& shapes) {
  Shapes list;
  for (const auto& [name, shape] : shapes.items()) list.emplace_back(name, shape);
  return Bag(list);
}

at::Tensor tensor_of(const json& values, const at::Tensor& like) {
  return at::tensor(values.get<std::vector<float>>()).view(like.sizes());
}

void set(const Bag& bag, const json& values) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : bag.tensors) tensor.copy_(tensor_of(values[name], tensor));
}

void set_gradients(const Bag& bag, const json& values) {
  for (const auto& [name, tensor] : bag.tensors) {
    tensor.grad().copy_(tensor_of(values[name], tensor));
  }
}

OptimizerOptions options_of(const json& run) {
  const json& given = run["options"];
  OptimizerOptions options{.name = run["optimizer"]};
  options.weight_decay = given.value("weight_decay", options.weight_decay);
  options.decay_all = given.value("decay_all", options.decay_all);
  options.momentum = given.value("momentum", options.momentum);
  options.nesterov = given.value("nesterov", options.nesterov);
  options.trust = given.value("trust", options.trust);
  options.no_decay = given.value("no_decay", options.no_decay);
  options.beta1 = given.value("beta1", options.beta1);
  options.beta2 = given.value("beta2", options.beta2);
  options.epsilon = given.value("epsilon", options.epsilon);
  return options;
}

// Rounding to float32 is 6e-8 of a value each time; `most` is for values that come out near 0.
void expect_close(const at::Tensor& ours, const at::Tensor& theirs, const std::string& what,
                  double most = 5e-7) {
  EXPECT_TRUE(at::allclose(ours, theirs, /*rtol=*/2e-6, /*atol=*/most))
      << what << "\n"
      << (ours - theirs).abs().max();
}

void expect_every_step(const json& all, double most = 5e-7) {
  for (const json& run : all["runs"]) {
    const Bag bag = bag_of(all["shapes"]);
    FlatModel model(bag.module);
    set(bag, all["start"]);
    const std::unique_ptr<Optimizer> optimizer = make_optimizer(model, options_of(run));
    ASSERT_EQ(run["steps"].size(), all["gradients"].size());
    for (std::size_t i = 0; i < run["steps"].size(); ++i) {
      const json& step = run["steps"][i];
      set_gradients(bag, all["gradients"][i]);
      optimizer->step(step["learning_rate"]);
      for (const auto& [name, tensor] : bag.tensors) {
        expect_close(tensor.detach(), tensor_of(step["parameters"][name], tensor),
                     run["optimizer"].dump() + run["options"].dump() + " " + name, most);
      }
    }
    model.check();
    EXPECT_EQ(optimizer->steps(), static_cast<std::int64_t>(run["steps"].size()));
    // The padding stays what it is.
    EXPECT_EQ(model.parameters().slice(0, model.elements()).count_nonzero().item<int>(), 0);
  }
}

TEST(TorchCases, EveryStepOfEveryOptimizerIsPyTorchs) {
  const json all = cases_in(DASO_TORCH_CASES);
  ASSERT_GT(all["runs"].size(), 10U);
  expect_every_step(all);
}

TEST(LayerwiseCases, EveryStepIsThatOfThePapers) {
  const json all = cases_in(DASO_LAYERWISE_NUMBERS);
  ASSERT_EQ(all["runs"].size(), 8U);
  expect_every_step(all, /*most=*/3e-6);
}

TEST(TorchCases, ClippingIsPyTorchs) {
  const json all = cases_in(DASO_TORCH_CASES);
  int scaled = 0;
  for (const json& one : all["clips"]) {
    const Bag bag = bag_of(all["shapes"]);
    FlatModel model(bag.module);
    set_gradients(bag, all["start"]);
    const at::Tensor before = model.gradients().clone();
    const double norm = clip_by_norm(model, one["largest"]).item<double>();
    EXPECT_NEAR(norm, one["norm"].get<double>(), 1e-6 * norm);
    for (const auto& [name, tensor] : bag.tensors) {
      expect_close(tensor.grad(), tensor_of(one["clipped"][name], tensor), name);
    }
    scaled += at::equal(model.gradients(), before) ? 0 : 1;
  }
  EXPECT_EQ(scaled, 2);  // and the third was small enough
}

}  // namespace
}  // namespace daso
