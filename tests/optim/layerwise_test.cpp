// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/layerwise.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>

#include "bag.h"
#include "daso/base/error.h"
#include "daso/kernels/norm_factors.h"
#include "daso/kernels/simd/scalar.h"
#include "daso/kernels/update.h"
#include "floats.h"

namespace daso {
namespace {

// A matrix w of norm 5, and a vector.
Bag bag_of_layers() {
  Bag made(Shapes{{"w", {2, 2}}, {"b", {2}}});
  const at::NoGradGuard no_grad;
  made.tensors.at("w").copy_(at::tensor({3.0F, 4.0F, 0.0F, 0.0F}).view({2, 2}));
  made.tensors.at("b").fill_(1);
  return made;
}

Floats floats_of(const Bag& from, const char* name) {
  const at::Tensor flat = from.tensors.at(name).detach().flatten();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

// |w| = 5 and |g| = 10, so a trust of 1/2 gives a ratio of 1/4.
TEST(Lars, TakesTheRatioOfNormsForMatricesAlone) {
  const Bag made = bag_of_layers();
  FlatModel model(made.module);
  made.tensors.at("w").grad().copy_(at::tensor({0.0F, 0.0F, 6.0F, 8.0F}).view({2, 2}));
  made.tensors.at("b").grad().fill_(0.25);
  Lars lars(model, {.trust = 0.5});
  lars.step(2);
  EXPECT_EQ(floats_of(made, "w"), (Floats{3, 4, -3, -4}));
  EXPECT_EQ(floats_of(made, "b"), (Floats{0.5F, 0.5F}));
}

// Decay is part of the norm: 1/2 * 5 / (10 + 1 * 5) = 1/6.
TEST(Lars, DecayIsPartOfTheNormAndOfTheStep) {
  const Bag made = bag_of_layers();
  FlatModel model(made.module);
  made.tensors.at("w").grad().copy_(at::tensor({0.0F, 0.0F, 6.0F, 8.0F}).view({2, 2}));
  Lars lars(model, {.weight_decay = 1, .trust = 0.5});
  lars.step(3);
  const Floats w = floats_of(made, "w");
  const Floats expected = {1.5F, 2, -3, -4};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i], expected[i], 1e-6);
  EXPECT_EQ(floats_of(made, "b"), (Floats{1, 1}));  // neither gradient nor decay
}

// Without memory of its own u is the sign of the gradient: |u| = 2, and 5 / 2 is the ratio.
TEST(Lamb, TakesTheRatioOfNormsForMatricesAlone) {
  const Bag made = bag_of_layers();
  FlatModel model(made.module);
  model.gradients().fill_(0.5);
  Lamb lamb(model, {.beta1 = 0, .beta2 = 0, .epsilon = 1e-12});
  lamb.step(0.1);
  const Floats w = floats_of(made, "w");
  const Floats expected = {2.75F, 3.75F, -0.25F, -0.25F};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i], expected[i], 1e-6);
  EXPECT_NEAR(floats_of(made, "b")[0], 0.9, 1e-6);
}

TEST(Layerwise, WhereANormIsZeroTheRateIsTheLearningRate) {
  const auto rate = kernels::rate_by_norms<simd::Scalar>;
  EXPECT_EQ(rate(0.5, 3, 4), 0.375F);
  EXPECT_EQ(rate(0.5, 0, 4), 0.5F);
  EXPECT_EQ(rate(0.5, 3, 0), 0.5F);
  EXPECT_EQ(rate(1, 1, 1e-300), std::numeric_limits<float>::max());
  const Bag made = bag_of_layers();
  FlatModel model(made.module);
  model.parameters().zero_();
  model.gradients().fill_(1);
  Lars(model, {}).step(0.25);
  EXPECT_EQ(floats_of(made, "w"), Floats(4, -0.25F));
  // A tensor without a gradient decays at the rate itself.
  model.parameters().fill_(1);
  model.gradients().zero_();
  Lars(model, {.weight_decay = 0.5}).step(0.5);
  EXPECT_EQ(floats_of(made, "w"), Floats(4, 0.75F));
  EXPECT_EQ(floats_of(made, "b"), Floats(2, 1));
  Lamb(model, {}).step(0.5);
  EXPECT_EQ(floats_of(made, "w"), Floats(4, 0.75F));
}

TEST(Layerwise, MomentsHaveTheLayoutOfTheParametersAndPaddingStaysZero) {
  FlatModel model(bag_of_layers().module);
  model.gradients().slice(0, 0, model.elements()).fill_(0.5);
  Lars lars(model, {.weight_decay = 5e-4, .momentum = 0.9});
  Lamb lamb(model, {.weight_decay = 0.01, .beta1 = 0.5, .beta2 = 0.75});
  lars.step(1);
  lamb.step(1);
  ASSERT_EQ(lars.moments().size(), 1U);
  ASSERT_EQ(lamb.moments().size(), 2U);
  EXPECT_TRUE(at::equal(lamb.moments()[0], model.gradients() * 0.5));
  EXPECT_TRUE(at::equal(lamb.moments()[1], model.gradients() * model.gradients() * 0.25));
  for (const at::Tensor& tensor :
       {model.parameters(), lars.moments()[0], lamb.moments()[0], lamb.moments()[1]}) {
    EXPECT_EQ(tensor.sizes(), model.parameters().sizes());
    EXPECT_EQ(tensor.slice(0, model.elements()).count_nonzero().item<int>(), 0);
  }
}

// As an agreement does: the moments are those of others, in place.
TEST(Layerwise, StepsFromMomentsThatWereAveraged) {
  const Bag made = bag_of_layers();
  FlatModel model(made.module);
  Lars lars(model, {.weight_decay = 5e-4, .momentum = 0.5});
  lars.moments()[0].fill_(1);
  lars.step(1);  // without gradients and, for b, without decay
  EXPECT_EQ(floats_of(made, "b"), Floats(2, 0.5F));
}

TEST(Lars, EveryInstructionSetGivesTheSameBits) {
  for (const std::size_t elements : {0U, 1U, 7U, 16U, 17U, 1003U, 5000U}) {
    std::vector<std::pair<Floats, Floats>> results;
    for (const InstructionSet set : supported_instruction_sets()) {
      std::mt19937 random(5);
      std::pair<Floats, Floats> mine{random_floats(elements, random), Floats(elements)};
      for (int step = 0; step < 4; ++step) {
        lars_update({.learning_rate = 0.3, .trust = 0.1, .momentum = 0.9F},
                    OneRun(elements, 0.01, /*adapts=*/true), random_floats(elements, random),
                    mine.first, mine.second, cpu_kernels(set));
      }
      results.push_back(mine);
      EXPECT_EQ(bits_of(mine.first), bits_of(results[0].first)) << name_of(set);
      EXPECT_EQ(bits_of(mine.second), bits_of(results[0].second)) << name_of(set);
    }
  }
}

TEST(Lamb, EveryInstructionSetGivesTheSameBits) {
  for (const std::size_t elements : {0U, 1U, 7U, 16U, 17U, 1003U, 5000U}) {
    std::vector<Floats> results;
    for (const InstructionSet set : supported_instruction_sets()) {
      std::mt19937 random(6);
      Floats all;
      Floats parameters = random_floats(elements, random);
      Floats first(elements);
      Floats second(elements);
      AdamStep step{.learning_rate = 0.3};
      for (step.number = 1; step.number <= 4; ++step.number) {
        const Floats gradients = random_floats(elements, random);
        lamb_update(step, OneRun(elements, 0.1, /*adapts=*/true), gradients, parameters, first,
                    second, cpu_kernels(set));
      }
      for (const Floats* part : {&parameters, &first, &second}) {
        all.insert(all.end(), part->begin(), part->end());
      }
      results.push_back(all);
      EXPECT_EQ(bits_of(all), bits_of(results[0])) << name_of(set);
    }
  }
}

TEST(Layerwise, WrongOptionsAreRefused) {
  FlatModel model(bag_of_layers().module);
  EXPECT_THROW(Lars(model, {.trust = 0}), ConfigError);
  EXPECT_THROW(Lars(model, {.momentum = 1}), ConfigError);
  EXPECT_THROW(Lars(model, {.weight_decay = -1}), ConfigError);
  EXPECT_THROW(Lars(model, {.no_decay = {"v"}}), ConfigError);
  EXPECT_THROW(Lamb(model, {.beta1 = 1}), ConfigError);
  EXPECT_THROW(Lamb(model, {.epsilon = 0}), ConfigError);
  EXPECT_THROW(Lamb(model, {.no_decay = {"v"}}), ConfigError);
}

TEST(Layerwise, WhatDoesNotFitIsABug) {
  const Floats four(4, 1);
  Floats parameters(4, 2);
  Floats moment(4);
  Floats less(3);
  const OneRun run(4);
  EXPECT_THROW(lars_update({}, run, four, parameters, less), std::logic_error);
  EXPECT_THROW(lamb_update({}, run, four, parameters, moment, less), std::logic_error);
  EXPECT_THROW(lamb_update({.number = 0}, run, four, parameters, moment, moment), std::logic_error);
}

}  // namespace
}  // namespace daso
