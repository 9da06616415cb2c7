// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

namespace daso {

inline constexpr int kColours = 3;  // red, green, blue

// (value - mean) * factor, for each colour.
struct ColourScale {
  std::array<float, kColours> mean = {0, 0, 0};
  std::array<float, kColours> factor = {1, 1, 1};
};

}  // namespace daso
