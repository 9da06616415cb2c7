// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daso/kernels/kernels.h"

// The loops of resample(): sums from left to right, each operation rounded by itself, with the same
// bits on every instruction set.
namespace daso {

inline constexpr int kColours = 3;  // red, green, blue

// (value - mean) * factor, for each colour.
struct ColourScale {
  std::array<float, kColours> mean = {0, 0, 0};
  std::array<float, kColours> factor = {1, 1, 1};
};

// Floats of pixels side by side, in three planes: reds, greens, blues.
struct Planes {
  float* red = nullptr;
  std::size_t plane = 0;  // from the first red to the first green
};

// Sum of `pixels` bytes of each colour: weights[0] * rows[i] + weights[1] * rows[stride + i] + ...
void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::size_t pixels, const Planes& sum, const Kernels& kernels = cpu_kernels());

// What each pixel of a row is made of: pixels of another row, side by side from `offsets` on.
struct PixelTaps {
  std::vector<std::int32_t> offsets;  // ascend, or descend
  std::vector<float> weights;         // of all first taps, then all second ones
  std::size_t taps = 0;               // of each pixel
};

// Sums up the taps of each pixel, at most 1, and scales it. Each plane of the row holds
// kernels::kBehindRow values more than its last tap.
void add_pixels(const Planes& row, const PixelTaps& taps, const ColourScale& scale,
                const Planes& sum, const Kernels& kernels = cpu_kernels());

}  // namespace daso
