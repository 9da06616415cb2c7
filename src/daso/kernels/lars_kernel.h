// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/kernels/instruction_set.h"

namespace daso {

struct LarsStep {
  float rate = 0;  // the learning rate times that of this tensor
  float momentum = 0;
  float weight_decay = 0;
};

// One step of LARS on one tensor in one pass over memory, once its rate is known. Each operation is
// rounded to fp32 by itself, with the same bits on every instruction set:
//   velocity   = momentum * velocity + rate * (gradients + weight_decay * parameters)
//   parameters = parameters - velocity
// All three have the same number of elements, any number.
void lars_update(const LarsStep& step, std::span<const float> gradients,
                 std::span<float> parameters, std::span<float> velocity,
                 InstructionSet set = best_instruction_set());

}  // namespace daso
