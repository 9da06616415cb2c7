// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bag.h"
#include "daso/base/error.h"
#include "daso/optim/adamw.h"
#include "daso/optim/runs.h"
#include "daso/optim/sgd.h"

namespace daso {
namespace {

Bag bag() {
  Bag made(Shapes{{"weight", {40, 3, 3, 3}},
                  {"scale", {40}},
                  {"shift", {40}},
                  {"none", {0, 4}},
                  {"head", {10, 40}},
                  {"bias", {10}},
                  {"temperature", {}}});
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : made.tensors) {
    tensor.copy_(at::arange(tensor.numel()).view(tensor.sizes()).mul(0.37).sin());
  }
  return made;
}

void set_gradients(FlatModel& model, int step) {
  model.gradients().zero_();
  model.gradients()
      .slice(0, 0, model.elements())
      .copy_(at::arange(model.elements()).mul(0.11 * (step + 1)).cos());
}

std::vector<OptimizerOptions> all_kinds() {
  return {{.name = "sgd"},
          {.name = "sgd", .weight_decay = 0.1, .momentum = 0.9, .nesterov = true},
          {.name = "sgd", .weight_decay = 0.1, .decay_all = false, .momentum = 0.9},
          {.name = "adamw", .weight_decay = 0.1},
          {.name = "adamw", .weight_decay = 0.1, .decay_all = false},
          {.name = "lars", .weight_decay = 0.1, .momentum = 0.9},
          {.name = "lamb", .weight_decay = 0.1, .no_decay = {"head"}}};
}

TEST(Optimizer, GoesOnFromItsStateWithTheSameBits) {
  for (const OptimizerOptions& options : all_kinds()) {
    FlatModel through(bag().module);
    const auto steady = make_optimizer(through, options);
    State saved;
    at::Tensor parameters;
    for (int step = 0; step < 8; ++step) {
      if (step == 3) {
        saved = steady->state();
        parameters = through.parameters().clone();
      }
      set_gradients(through, step);
      steady->step(0.1);
    }
    FlatModel again(bag().module);
    again.parameters().copy_(parameters);
    const auto resumed = make_optimizer(again, options);
    resumed->load_state(saved);
    EXPECT_EQ(resumed->steps(), 3);
    for (int step = 3; step < 8; ++step) {
      set_gradients(again, step);
      resumed->step(0.1);
    }
    EXPECT_TRUE(at::equal(again.parameters(), through.parameters())) << options.name;
    const State end = steady->state();
    const State same_end = resumed->state();
    ASSERT_EQ(end.size(), same_end.size());
    for (const auto& [name, tensor] : end) EXPECT_TRUE(at::equal(tensor, same_end.at(name)));
  }
}

TEST(Optimizer, RefusesTheStateOfAnother) {
  FlatModel model(bag().module);
  const auto sgd = make_optimizer(model, {.name = "sgd", .momentum = 0.9});
  const auto adamw = make_optimizer(model, {.name = "adamw"});
  EXPECT_THROW(adamw->load_state(sgd->state()), ConfigError);
  EXPECT_THROW(sgd->load_state(adamw->state()), ConfigError);
  State wrong = adamw->state();
  wrong["adamw.second"] = at::zeros({3});
  EXPECT_THROW(adamw->load_state(wrong), ConfigError);
  wrong = adamw->state();
  wrong["adamw.steps"] = integer(-1);
  EXPECT_THROW(adamw->load_state(wrong), ConfigError);
}

TEST(Optimizer, HasTheMomentsThatAnAgreementAverages) {
  FlatModel model(bag().module);
  EXPECT_TRUE(make_optimizer(model, {.name = "sgd"})->moments().empty());
  EXPECT_EQ(make_optimizer(model, {.name = "sgd", .momentum = 0.5})->moments().size(), 1U);
  AdamW adamw(model, {.beta1 = 0.5, .beta2 = 0.75});
  set_gradients(model, 0);
  adamw.step(0.1);
  const std::vector<at::Tensor> moments = adamw.moments();
  ASSERT_EQ(moments.size(), 2U);
  EXPECT_TRUE(at::equal(moments[0], model.gradients() * 0.5));
  EXPECT_TRUE(at::equal(moments[1], model.gradients() * 0.25 * model.gradients()));
}

// After one step from zero the first moment is gradient / 2. Told that this is the second step, the
// correction divides by 1 - 1/4 and not by 1/2.
TEST(AdamWOptimizer, CorrectsByTheStepsThatItIsTold) {
  FlatModel model(bag().module);
  model.parameters().zero_();
  model.gradients().fill_(1);
  AdamW adamw(model, {.beta1 = 0.5, .beta2 = 0, .epsilon = 1e-12});
  adamw.set_steps(1);
  adamw.step(1);
  EXPECT_EQ(adamw.steps(), 2);
  EXPECT_NEAR(model.parameters()[0].item<double>(), -0.5 / 0.75, 1e-6);
}

TEST(Decay, OfAllIsOnePass) {
  const FlatModel model(bag().module);
  const std::vector<ElementRun> runs = decay_runs(model, {.weight_decay = 1});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].elements, 1792U);  // 1080 + 40 + 40 + 400 + 10 + 1 in blocks of 256
}

// The layout is temperature, bias, head, none, shift, scale, weight.
TEST(Decay, LeavesOutTensorsOfOneDimensionOrNone) {
  const FlatModel model(bag().module);
  const std::vector<ElementRun> runs = decay_runs(model, {.weight_decay = 1, .decay_all = false});
  ASSERT_EQ(runs.size(), 4U);
  const std::vector<std::size_t> offsets = {0, 11, 411, 491};
  const std::vector<std::size_t> elements = {11, 400, 80, 1792 - 491};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(runs[i].offset, offsets[i]);
    EXPECT_EQ(runs[i].elements, elements[i]);
    EXPECT_EQ(runs[i].decays, i % 2 == 1);
  }
}

// The layout is temperature (1), bias (10), head (400), none (0), shift (40), scale (40), weight.
TEST(Decay, LeavesOutWhatIsNamed) {
  const FlatModel model(bag().module);
  const std::vector<ElementRun> runs =
      decay_runs(model, {.weight_decay = 1, .no_decay = {"head", "scale"}});
  ASSERT_EQ(runs.size(), 5U);
  const std::vector<std::size_t> offsets = {0, 11, 411, 451, 491};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(runs[i].offset, offsets[i]);
    EXPECT_EQ(runs[i].decays, i % 2 == 0);
  }
  // Together with norms and biases only the weight is left, and a tensor without elements.
  const std::vector<ElementRun> both =
      decay_runs(model, {.weight_decay = 1, .decay_all = false, .no_decay = {"head"}});
  ASSERT_EQ(both.size(), 4U);
  const std::vector<std::size_t> elements = {411, 0, 80, 1792 - 491};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(both[i].elements, elements[i]);
    EXPECT_EQ(both[i].decays, i % 2 == 1);
  }
}

TEST(Decay, RefusesNamesThatNoParameterBeginsWith) {
  const FlatModel model(bag().module);
  for (const char* wrong : {"hea", "scales", ""}) {
    EXPECT_THROW(decay_runs(model, {.weight_decay = 1, .no_decay = {wrong}}), ConfigError) << wrong;
  }
  try {
    decay_runs(model, {.weight_decay = 1, .no_decay = {"wieght"}});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'weight'?"), std::string::npos);
  }
}

TEST(Decay, OfNamedTensorsIsNoneForEachOptimizer) {
  for (const std::string& name : optimizer_names()) {
    const Bag made = bag();
    FlatModel model(made.module);
    const at::Tensor head = made.tensors.at("head").detach().clone();
    const at::Tensor weight = made.tensors.at("weight").detach().clone();
    make_optimizer(model, {.name = name, .weight_decay = 0.5, .no_decay = {"head"}})->step(0.5);
    EXPECT_TRUE(at::equal(made.tensors.at("head"), head)) << name;
    EXPECT_FALSE(at::equal(made.tensors.at("weight"), weight)) << name;
  }
}

TEST(Decay, WithoutGradientsChangesWeightsAlone) {
  for (const char* name : {"sgd", "adamw"}) {
    const Bag made = bag();
    FlatModel model(made.module);
    const auto before = bag().tensors;
    make_optimizer(model, {.name = name, .weight_decay = 0.5, .decay_all = false})->step(0.5);
    for (const auto& [tensor_name, tensor] : made.tensors) {
      const double factor = tensor.dim() > 1 ? 0.75 : 1;
      EXPECT_TRUE(at::allclose(tensor, before.at(tensor_name) * factor)) << name << tensor_name;
    }
  }
}

TEST(Optimizer, RefusesNamesAndValuesThatMakeNoSense) {
  FlatModel model(bag().module);
  const auto refusal = [&](const OptimizerOptions& options) -> std::string {
    try {
      make_optimizer(model, options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal({.name = "adam"}).find("did you mean adamw?"), std::string::npos);
  EXPECT_NE(refusal({.name = "nonsense"}).find("there are sgd, adamw"), std::string::npos);
  EXPECT_NE(refusal({.name = "adamw", .beta1 = 1}), "");
  EXPECT_NE(refusal({.name = "adamw", .beta1 = -0.1}), "");
  EXPECT_NE(refusal({.name = "adamw", .beta2 = 1}), "");
  EXPECT_NE(refusal({.name = "adamw", .epsilon = 0}), "");
  EXPECT_NE(refusal({.name = "adamw", .epsilon = 1e-60}), "");
  for (const std::string& name : optimizer_names()) {
    EXPECT_EQ(refusal({.name = name}), "") << name;
    for (const double decay : {-1.0, std::nan(""), HUGE_VAL}) {
      EXPECT_NE(refusal({.name = name, .weight_decay = decay}), "") << name << " " << decay;
    }
  }
  EXPECT_NE(refusal({.name = "sgd", .momentum = 1}), "");
  EXPECT_NE(refusal({.name = "sgd", .nesterov = true}), "");
}

TEST(Chunks, CoverEveryRunAndEndAtMultiplesOfTheirSize) {
  constexpr std::size_t kSize = kernels::kChunkElements;
  std::vector<kernels::Run> runs = {{.begin = 0, .elements = 3},
                                    {.begin = 3, .elements = 2 * kSize},
                                    {.begin = 2 * kSize + 3, .elements = 0},
                                    {.begin = 2 * kSize + 10, .elements = kSize - 10},
                                    {.begin = 3 * kSize, .elements = kSize + 1}};
  const std::vector<kernels::Chunk> chunks = cut_in_chunks(runs);
  const std::vector<std::uint32_t> numbers = {1, 3, 0, 1, 2};
  std::size_t next = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].first_chunk, next);
    ASSERT_EQ(runs[i].chunks, numbers[i]);
    std::size_t at = runs[i].begin;
    for (; next < runs[i].first_chunk + runs[i].chunks; ++next) {
      EXPECT_EQ(chunks.at(next).run, i);
      EXPECT_EQ(chunks.at(next).begin, at);
      at += chunks.at(next).elements;
      EXPECT_TRUE(at % kSize == 0 || at == runs[i].begin + runs[i].elements);
      EXPECT_LE(chunks.at(next).elements, kSize);
    }
    EXPECT_EQ(at, runs[i].begin + runs[i].elements);
  }
  EXPECT_EQ(chunks.size(), next);
}

}  // namespace
}  // namespace daso
