// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

namespace daso {

using Floats = std::vector<float>;

inline Floats random_floats(std::size_t elements, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1);
  Floats values(elements);
  for (float& value : values) value = normal(random);
  return values;
}

// To compare bit by bit: -0 is not 0, and NaN is itself.
inline std::vector<std::uint32_t> bits_of(const Floats& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

}  // namespace daso
