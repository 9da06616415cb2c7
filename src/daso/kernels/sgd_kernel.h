// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/kernels/instruction_set.h"

namespace daso {

struct SgdStep {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // of the run: the momentum buffer is written and not read
};

// One step of stochastic gradient descent in one pass over memory. Each product and each sum is
// rounded to fp32 by itself, with the same bits on every instruction set, so ranks that hold equal
// parameters and gradients stay equal:
//   d        = gradients + weight_decay * parameters
//   velocity = d                           the first time
//   velocity = momentum * velocity + d     later
//   parameters = parameters - learning_rate * velocity
//   parameters = parameters - learning_rate * (d + momentum * velocity)   with Nesterov's momentum
// All three have the same number of elements, any number. Without momentum `velocity` is empty, and
// d takes its place.
void sgd_update(const SgdStep& step, std::span<const float> gradients, std::span<float> parameters,
                std::span<float> velocity, InstructionSet set = best_instruction_set());

}  // namespace daso
