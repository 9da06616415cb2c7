// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daso/base/instruction_set.h"

namespace daso {

// sum[i] = weights[0] * rows[i] + weights[1] * rows[stride + i] + ..., from left to right, each
// operation rounded by itself, with the same bits on every instruction set.
void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::span<float> sum, InstructionSet set = best_instruction_set());

}  // namespace daso
