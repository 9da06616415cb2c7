// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <stdexcept>
#include <vector>

#include "daso/kernels/update.h"
#include "floats.h"

namespace daso {
namespace {

// The definition, an element at a time.
void plain_update(const SgdStep& step, const Floats& gradients, Floats& parameters,
                  Floats& velocity) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float decay = step.weight_decay * parameters[i];
    const float d = gradients[i] + decay;
    float change = d;
    if (!velocity.empty()) {
      const float kept = step.momentum * velocity[i];
      velocity[i] = step.first ? d : kept + d;
      const float ahead = step.momentum * velocity[i];
      change = step.nesterov ? d + ahead : velocity[i];
    }
    const float move = step.learning_rate * change;
    parameters[i] -= move;
  }
}

TEST(Sgd, EveryInstructionSetUpdatesAsDefined) {
  std::mt19937 random(1);
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const std::size_t elements : {0U, 1U, 15U, 16U, 17U, 256U, 1003U}) {
      for (const bool nesterov : {false, true}) {
        for (const bool with_momentum : {true, false}) {
          SgdStep step{.learning_rate = 0.1F, .weight_decay = 1e-2F};
          step.momentum = with_momentum ? 0.9F : 0;
          step.nesterov = nesterov && with_momentum;
          step.first = true;
          Floats parameters = random_floats(elements, random);
          Floats velocity = with_momentum ? random_floats(elements, random) : Floats();
          Floats expected = parameters;
          Floats expected_velocity = velocity;
          for (int i = 0; i < 3; ++i) {
            const Floats gradients = random_floats(elements, random);
            plain_update(step, gradients, expected, expected_velocity);
            sgd_update(step, gradients, parameters, velocity, cpu_kernels(set));
            step.first = false;
          }
          ASSERT_EQ(bits_of(parameters), bits_of(expected)) << name_of(set) << " " << elements;
          ASSERT_EQ(bits_of(velocity), bits_of(expected_velocity));
        }
      }
    }
  }
}

// d = 1 all the time: the velocity is 1, 1.5, 1.75, and the parameter falls by their sum / 4.
TEST(Sgd, ConstantGradientsAddUp) {
  SgdStep step{.learning_rate = 0.25F, .momentum = 0.5F, .first = true};
  const Floats gradients(4, 1);
  Floats parameters(4, 2);
  Floats velocity(4, 99);  // what lies there before the first step does not count
  for (int i = 0; i < 3; ++i) {
    sgd_update(step, gradients, parameters, velocity);
    step.first = false;
  }
  EXPECT_EQ(velocity, Floats(4, 1.75F));
  EXPECT_EQ(parameters, Floats(4, 2 - (1 + 1.5F + 1.75F) / 4));
}

TEST(Sgd, WhatDoesNotFitIsABug) {
  const Floats gradients(4, 1);
  Floats parameters(4, 2);
  Floats velocity(3);
  EXPECT_THROW(sgd_update({.learning_rate = 1}, gradients, parameters, velocity), std::logic_error);
  EXPECT_THROW(sgd_update({.learning_rate = 1, .momentum = 0.9F}, gradients, parameters, {}),
               std::logic_error);
}

}  // namespace
}  // namespace daso
