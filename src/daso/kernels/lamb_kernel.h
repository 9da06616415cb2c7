// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "daso/kernels/instruction_set.h"

// One step of LAMB on one tensor takes two passes, since the rate depends on the norm of the whole
// change. The change is not kept in between but computed twice: it costs less than the memory.
// Factors are computed in double and rounded to fp32 once; after that each operation on an element
// is rounded to fp32 by itself, with the same bits on every instruction set.
namespace daso {

struct LambStep {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t number = 1;  // of this step, counted from 1
};

// The first pass, in pieces of any number of elements:
//   first  = beta1 * first + (1 - beta1) * gradients
//   second = beta2 * second + (1 - beta2) * gradients * gradients
//   change = first / (1 - beta1^number) / (sqrt(second) / sqrt(1 - beta2^number) + epsilon)
//            + weight_decay * parameters
void lamb_moments(const LambStep& step, std::span<const float> gradients,
                  std::span<const float> parameters, std::span<float> first,
                  std::span<float> second, std::span<float> change,
                  InstructionSet set = best_instruction_set());

// The second pass, with the same step:
//   parameters = parameters - rate * change
void lamb_update(const LambStep& step, float rate, std::span<const float> first,
                 std::span<const float> second, std::span<float> parameters,
                 InstructionSet set = best_instruction_set());

}  // namespace daso
