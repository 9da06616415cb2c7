// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "daso/kernels/wire.h"

// Numbers that are hard on arithmetic, and the wire formats once more, written as plainly as their
// definition (algorithm.md 6) to compare the real ones with.
namespace daso::test {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

inline constexpr auto kAllWires = [] {
  std::array<Wire, kWires> all{};
  for (std::size_t i = 0; i < kWires; ++i) all[i] = static_cast<Wire>(i);
  return all;
}();

// Rounding leaves out less than it got. What it leaves goes into the next difference, so elsewhere
// differences may grow.
constexpr bool shrinks(Wire wire) { return qsgd_bits(wire) == 0 || qsgd_bits(wire) >= 3; }

// The bits, so that -0 differs from 0 and a failure shows what happened.
std::vector<std::uint32_t> bits_of(std::span<const float> values);

// Of all magnitudes from subnormal to `largest`, zeros of both signs among them; some blocks are of
// one magnitude, some all zero, some so small that they count as zero on wires with a scale.
Floats hard_numbers(std::size_t elements, float largest, std::mt19937& random);
Floats normal_numbers(std::size_t elements, float deviation, std::mt19937& random);

// The difference and its encoded form.
Floats plain_difference(std::span<const float> values, std::span<const float> anchor);
Bytes plain_encoded(Wire wire, std::span<const float> difference, const Draws& draws = {});
// What that decodes to.
Floats plain_rounded(Wire wire, std::span<const float> difference, const Draws& draws = {});

}  // namespace daso::test
