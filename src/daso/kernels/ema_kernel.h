// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/kernels/instruction_set.h"

namespace daso {

// average = average + take * (values - average), in one pass over memory; each operation is rounded
// to fp32 by itself, with the same bits on every instruction set. Both have the same number of
// elements, any number.
void ema_update(float take, std::span<const float> values, std::span<float> average,
                InstructionSet set = best_instruction_set());

}  // namespace daso
