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
void plain_update(const SgdStep& step, float weight_decay, const Floats& gradients,
                  Floats& parameters, Floats& velocity) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float decay = weight_decay * parameters[i];
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
          SgdStep step{.learning_rate = 0.1F};
          step.momentum = with_momentum ? 0.9F : 0;
          step.nesterov = nesterov && with_momentum;
          step.first = true;
          Floats parameters = random_floats(elements, random);
          Floats velocity = with_momentum ? random_floats(elements, random) : Floats();
          Floats expected = parameters;
          Floats expected_velocity = velocity;
          for (int i = 0; i < 3; ++i) {
            const Floats gradients = random_floats(elements, random);
            plain_update(step, 1e-2F, gradients, expected, expected_velocity);
            sgd_update(step, OneRun(elements, 1e-2), gradients, parameters, velocity,
                       cpu_kernels(set));
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
    sgd_update(step, OneRun(4), gradients, parameters, velocity);
    step.first = false;
  }
  EXPECT_EQ(velocity, Floats(4, 1.75F));
  EXPECT_EQ(parameters, Floats(4, 2 - (1 + 1.5F + 1.75F) / 4));
}

// Runs that decay differently, in one call: each is what a call of its own gives.
TEST(Sgd, RunsAreUpdatedByThemselves) {
  std::mt19937 random(2);
  const Floats gradients = random_floats(100, random);
  const Floats start = random_floats(100, random);
  const std::vector<kernels::Run> rows = {{.begin = 0, .elements = 37, .weight_decay = 0.5},
                                          {.begin = 37, .elements = 0},
                                          {.begin = 37, .elements = 50},
                                          {.begin = 90, .elements = 10, .weight_decay = 0.25}};
  const SgdStep step{.learning_rate = 0.25F, .momentum = 0.5F, .first = true};
  for (const InstructionSet set : supported_instruction_sets()) {
    Floats parameters = start;
    Floats velocity(100, 9);
    sgd_update(step, {.runs = rows.data(), .number = rows.size()}, gradients, parameters, velocity,
               cpu_kernels(set));
    Floats expected = start;  // what lies between runs stays
    Floats expected_velocity(100, 9);
    for (const kernels::Run& run : rows) {
      const auto part = [&run](Floats& all) {
        return std::span(all).subspan(run.begin, run.elements);
      };
      Floats same = gradients;
      sgd_update(step, OneRun(run.elements, run.weight_decay), part(same), part(expected),
                 part(expected_velocity), cpu_kernels(set));
    }
    EXPECT_EQ(bits_of(parameters), bits_of(expected)) << name_of(set);
    EXPECT_EQ(bits_of(velocity), bits_of(expected_velocity)) << name_of(set);
  }
}

TEST(Sgd, WhatDoesNotFitIsABug) {
  const Floats gradients(4, 1);
  Floats parameters(4, 2);
  Floats velocity(3);
  EXPECT_THROW(sgd_update({.learning_rate = 1}, OneRun(4), gradients, parameters, velocity),
               std::logic_error);
  EXPECT_THROW(
      sgd_update({.learning_rate = 1, .momentum = 0.9F}, OneRun(4), gradients, parameters, {}),
      std::logic_error);
}

}  // namespace
}  // namespace daso
