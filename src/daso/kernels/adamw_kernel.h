// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "daso/kernels/instruction_set.h"

namespace daso {

struct AdamwStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t number = 1;  // of this step, counted from 1
};

// One step of AdamW, Adam with decoupled weight decay, in one pass over memory. The factors are
// computed in double and rounded to fp32 once; after that each operation on an element is rounded
// to fp32 by itself, with the same bits on every instruction set, so ranks that hold equal
// parameters and gradients stay equal:
//   first  = beta1 * first + (1 - beta1) * gradients
//   second = beta2 * second + (1 - beta2) * gradients * gradients
//   root   = sqrt(second) / sqrt(1 - beta2^number) + epsilon
//   parameters = (1 - learning_rate * weight_decay) * parameters
//                - learning_rate / (1 - beta1^number) * first / root
// All four have the same number of elements, any number.
void adamw_update(const AdamwStep& step, std::span<const float> gradients,
                  std::span<float> parameters, std::span<float> first, std::span<float> second,
                  InstructionSet set = best_instruction_set());

}  // namespace daso
