// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daso/base/instruction_set.h"

// The loops of resample(): sums from left to right, each operation rounded by itself, with the same
// bits on every instruction set.
namespace daso {

// sum[i] = weights[0] * rows[i] + weights[1] * rows[stride + i] + ...
void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::span<float> sum, InstructionSet set = best_instruction_set());

// What each pixel of a row is made of: pixels of another row, side by side from `offsets` on.
struct PixelTaps {
  std::vector<std::int32_t> offsets;  // in values, of which a pixel has three
  std::vector<float> weights;         // of all first taps, then all second ones; each four times
  std::size_t taps = 0;               // of each pixel
};

// Sums up the taps of each pixel, at most 1, and writes the colours apart: `plane` lies between the
// first red and the first green. The row holds one value more than its last tap.
void add_pixels(const float* row, const PixelTaps& taps, float* red, std::size_t plane,
                InstructionSet set = best_instruction_set());

}  // namespace daso
