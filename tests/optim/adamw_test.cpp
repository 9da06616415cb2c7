// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "daso/kernels/update.h"
#include "floats.h"

namespace daso {
namespace {

struct Elements {
  Floats parameters;
  Floats first;
  Floats second;
};

// The definition in double, an element at a time.
void plain_update(const AdamStep& step, double weight_decay, const Floats& gradients,
                  std::vector<std::array<double, 3>>& elements) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    auto& [parameter, first, second] = elements[i];
    const double g = gradients[i];
    const auto number = static_cast<double>(step.number);
    first = step.beta1 * first + (1 - step.beta1) * g;
    second = step.beta2 * second + (1 - step.beta2) * g * g;
    const double mean = first / (1 - std::pow(step.beta1, number));
    const double square = second / (1 - std::pow(step.beta2, number));
    parameter -= step.learning_rate * weight_decay * parameter;
    parameter -= step.learning_rate * mean / (std::sqrt(square) + step.epsilon);
  }
}

TEST(AdamW, UpdatesAsDefined) {
  std::mt19937 random(3);
  AdamStep step{.learning_rate = 0.05, .beta1 = 0.8, .beta2 = 0.95};
  const Floats start = random_floats(1003, random);
  Elements ours{start, Floats(1003), Floats(1003)};
  std::vector<std::array<double, 3>> expected;
  for (const float value : start) expected.push_back({value, 0, 0});
  for (step.number = 1; step.number <= 20; ++step.number) {
    const Floats gradients = random_floats(1003, random);
    plain_update(step, 0.1, gradients, expected);
    adamw_update(step, OneRun(1003, 0.1), gradients, ours.parameters, ours.first, ours.second);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(ours.parameters[i], expected[i][0], 2e-6);
    ASSERT_NEAR(ours.first[i], expected[i][1], 1e-6);
    ASSERT_NEAR(ours.second[i], expected[i][2], 1e-6);
  }
}

TEST(AdamW, EveryInstructionSetGivesTheSameBits) {
  for (const std::size_t elements : {0U, 1U, 7U, 15U, 16U, 17U, 256U, 1003U}) {
    std::vector<Elements> results;
    for (const InstructionSet set : supported_instruction_sets()) {
      std::mt19937 random(5);
      AdamStep step{.learning_rate = 0.01};
      Elements mine{random_floats(elements, random), Floats(elements), Floats(elements)};
      for (step.number = 1; step.number <= 4; ++step.number) {
        const Floats gradients = random_floats(elements, random);
        adamw_update(step, OneRun(elements, 0.1), gradients, mine.parameters, mine.first,
                     mine.second, cpu_kernels(set));
      }
      results.push_back(mine);
      EXPECT_EQ(bits_of(mine.parameters), bits_of(results[0].parameters)) << name_of(set);
      EXPECT_EQ(bits_of(mine.first), bits_of(results[0].first)) << name_of(set);
      EXPECT_EQ(bits_of(mine.second), bits_of(results[0].second)) << name_of(set);
    }
  }
}

// Constant gradients: both corrected means are exact, so each step is learning_rate long.
TEST(AdamW, FirstStepsAreAsLongAsLaterOnes) {
  AdamStep step{.learning_rate = 0.125};
  const Floats gradients(5, 0.5F);
  Elements mine{Floats(5, 1), Floats(5), Floats(5)};
  for (step.number = 1; step.number <= 8; ++step.number) {
    adamw_update(step, OneRun(5), gradients, mine.parameters, mine.first, mine.second);
    EXPECT_NEAR(mine.parameters[4], 1 - 0.125 * static_cast<double>(step.number), 1e-6);
  }
}

// Long after the start nothing is left to correct.
TEST(AdamW, MillionthStepUsesTheMomentsAsTheyAre) {
  const AdamStep step{.learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.75, .number = 1'000'000};
  Floats parameters = {1};
  Floats first = {1};
  Floats second = {4};
  adamw_update(step, OneRun(1), Floats{2}, parameters, first, second);
  EXPECT_EQ(first, Floats{1.5F});
  EXPECT_EQ(second, Floats{4});
  EXPECT_NEAR(parameters[0], 1 - 0.5 * 1.5 / 2, 1e-6);
}

TEST(AdamW, WithoutGradientsOnlyDecays) {
  Floats parameters = {4, -2, 0};
  Floats first(3);
  Floats second(3);
  adamw_update({.learning_rate = 0.5}, OneRun(3, 0.5), Floats(3), parameters, first, second);
  EXPECT_EQ(parameters, (Floats{3, -1.5F, 0}));
}

TEST(AdamW, WhatDoesNotFitIsABug) {
  const Floats gradients(4, 1);
  Floats parameters(4, 2);
  Floats moment(4);
  Floats less(3);
  const AdamStep step{.learning_rate = 1};
  EXPECT_THROW(adamw_update(step, OneRun(4), gradients, parameters, moment, less),
               std::logic_error);
  EXPECT_THROW(adamw_update(step, OneRun(4), gradients, parameters, less, moment),
               std::logic_error);
  EXPECT_THROW(adamw_update(step, OneRun(4), less, parameters, moment, moment), std::logic_error);
  EXPECT_THROW(adamw_update({.number = 0}, OneRun(4), gradients, parameters, moment, moment),
               std::logic_error);
}

}  // namespace
}  // namespace daso
