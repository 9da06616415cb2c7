// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

// Norms that have the same bits on ranks that hold equal values, whatever their processors and
// threads are: sums are in double, in an order that depends on nothing but the number of elements.
namespace daso {

// A sum of squares, piece by piece.
class SquareSum {
 public:
  // So many sums run side by side; the compiler makes vectors of them, of any length that divides
  // it.
  static constexpr std::size_t kSums = 16;

  // All pieces but the last have a multiple of kSums elements.
  void add(std::span<const float> values);
  double total() const;

 private:
  std::array<double, kSums> sums_{};
};

// The square root of the sum of the squares.
double norm_of(std::span<const float> values);

}  // namespace daso
