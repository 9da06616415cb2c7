// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/ema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>

#include "bag.h"
#include "daso/base/error.h"
#include "daso/kernels/update.h"
#include "daso/optim/optimizer.h"

namespace daso {
namespace {

using Floats = std::vector<float>;

Bag two_tensors() { return Bag(Shapes{{"w", {5, 7}}, {"b", {3}}}); }

TEST(Ema, KeepsLittleWhileItIsYoung) {
  EXPECT_EQ(ema_keep(0.999, 1), 0);
  EXPECT_DOUBLE_EQ(ema_keep(0.999, 2), 2.0 / 11);  // t = 1: (1 + 1) / (10 + 1)
  EXPECT_DOUBLE_EQ(ema_keep(0.999, 91), 0.91);
  EXPECT_EQ(ema_keep(0.5, 9), 0.5);
  EXPECT_EQ(ema_keep(0.5, 100), 0.5);
  EXPECT_EQ(ema_keep(0.999, 1'000'000), 0.999);
}

// The average of 1, 2, ... n at a decay of 1/2. Up to n = 9 it keeps n / (n + 9), and
//   average = 0.9 n + 1 / binomial(n + 9, 9)
// solves the recurrence; after that it keeps half, which halves its distance to n - 1 at each step.
double average_of_the_first(int n) {
  double binomial = 1;
  for (int i = 1; i <= std::min(n, 9); ++i) binomial = binomial * (i + 9) / i;
  if (n <= 9) return 0.9 * n + 1 / binomial;
  return n - 1 + std::ldexp(0.1 + 1 / binomial, 9 - n);
}

// Gradients of -1 at a rate of 1: the parameters are 1, 2, 3, ...
TEST(Ema, IsTheWeightedMeanOfAllStates) {
  FlatModel model(two_tensors().module);
  const auto optimizer = make_optimizer(model, {.name = "sgd", .ema = 0.5});
  EXPECT_EQ(optimizer->name(), "sgd");
  model.gradients().slice(0, 0, model.elements()).fill_(-1);
  for (int step = 1; step <= 20; ++step) {
    optimizer->step(1);
    EXPECT_NEAR(optimizer->average()[0].item<double>(), average_of_the_first(step), 1e-5) << step;
  }
  EXPECT_EQ(model.parameters()[0].item<float>(), 20);
  EXPECT_EQ(optimizer->average().slice(0, model.elements()).count_nonzero().item<int>(), 0);
}

// What the parameters were when the optimizer was made does not count: they may be loaded later.
TEST(Ema, BeginsWithTheStateAfterTheFirstStep) {
  FlatModel model(two_tensors().module);
  const auto optimizer = make_optimizer(model, {.name = "adamw", .ema = 0.999});
  model.parameters().slice(0, 0, model.elements()).fill_(3);
  model.gradients().slice(0, 0, model.elements()).fill_(1);
  optimizer->step(0.1);
  EXPECT_TRUE(at::equal(optimizer->average(), model.parameters()));
}

TEST(Ema, IsTheParametersBeforeTheFirstStep) {
  const Bag bag = two_tensors();
  FlatModel model(bag.module);
  const auto optimizer = make_optimizer(model, {.name = "sgd", .ema = 0.9});
  for (const float value : {3.0F, 4.0F}) {  // they may be loaded late
    model.parameters().fill_(value);
    EXPECT_TRUE(at::equal(optimizer->average(), model.parameters()));
    EXPECT_TRUE(at::equal(optimizer->moments().back(), model.parameters()));
    EXPECT_TRUE(at::equal(optimizer->state().at("ema.b"), bag.tensors.at("b").detach()));
  }
}

TEST(Ema, IsOneMoreMomentAndNoneWithoutIt) {
  FlatModel model(two_tensors().module);
  const auto with = make_optimizer(model, {.name = "lamb", .ema = 0.9});
  ASSERT_EQ(with->moments().size(), 3U);
  with->set_steps(4);
  with->moments()[2].fill_(7);  // as an agreement does
  EXPECT_EQ(with->average()[4].item<float>(), 7);
  EXPECT_EQ(with->average().sizes(), model.parameters().sizes());
  with->set_steps(5);
  EXPECT_EQ(with->steps(), 5);
  EXPECT_FALSE(make_optimizer(model, {.name = "lamb"})->average().defined());
}

TEST(Ema, IsSavedByTheNamesOfTheParameters) {
  const Bag bag = two_tensors();
  FlatModel model(bag.module);
  const auto optimizer = make_optimizer(model, {.name = "sgd", .momentum = 0.5, .ema = 0.9});
  model.gradients().copy_(at::arange(model.gradients().numel()));
  optimizer->step(1);
  const State state = optimizer->state();
  EXPECT_TRUE(at::equal(state.at("ema.w"), bag.tensors.at("w").detach()));
  EXPECT_TRUE(at::equal(state.at("ema.b"), bag.tensors.at("b").detach()));
  EXPECT_TRUE(state.contains("sgd.velocity"));

  FlatModel other(two_tensors().module);
  const auto resumed = make_optimizer(other, {.name = "sgd", .momentum = 0.5, .ema = 0.9});
  resumed->load_state(state);
  const std::int64_t elements = model.elements();
  EXPECT_TRUE(at::equal(resumed->average().slice(0, 0, elements),
                        optimizer->average().slice(0, 0, elements)));
  EXPECT_EQ(resumed->steps(), 1);
  const auto plain = make_optimizer(model, {.name = "sgd", .momentum = 0.5});
  EXPECT_THROW(resumed->load_state(plain->state()), ConfigError);
}

TEST(Ema, ParametersComeBackAfterASwap) {
  const Bag bag = two_tensors();
  FlatModel model(bag.module);
  model.parameters().fill_(1);
  {
    const Swapped swapped(model, at::full_like(model.parameters(), 2));
    EXPECT_EQ(bag.tensors.at("b")[1].item<float>(), 2);
    model.check();
  }
  EXPECT_EQ(bag.tensors.at("b")[1].item<float>(), 1);
}

TEST(Ema, EveryInstructionSetGivesTheSameBits) {
  for (const std::size_t elements : {0U, 1U, 7U, 16U, 17U, 1003U}) {
    std::vector<Floats> results;
    for (const InstructionSet set : supported_instruction_sets()) {
      std::mt19937 random(5);
      std::normal_distribution<float> normal(0, 1);
      Floats average(elements);
      for (int step = 0; step < 4; ++step) {
        Floats values(elements);
        for (float& value : values) value = normal(random);
        ema_update(0.3F, values, average, cpu_kernels(set));
      }
      results.push_back(average);
      for (std::size_t i = 0; i < elements; ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(average[i]),
                  std::bit_cast<std::uint32_t>(results[0][i]))
            << name_of(set);
      }
    }
  }
}

TEST(Ema, WrongDecaysAreRefused) {
  FlatModel model(two_tensors().module);
  for (const double wrong : {0.0, 1.0, -0.5, 2.0}) {
    EXPECT_THROW(make_optimizer(model, {.name = "sgd", .ema = wrong}), ConfigError) << wrong;
  }
  Floats average(3);
  EXPECT_THROW(ema_update(0.5F, Floats(4), average), std::logic_error);
}

}  // namespace
}  // namespace daso
