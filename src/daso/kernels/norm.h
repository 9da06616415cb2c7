// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "daso/kernels/kernels.h"

// Norms that have the same bits on ranks that hold equal values, whatever their processors and
// threads are: sums are in double, in an order that depends on nothing but the number of elements.
// A norm is the square root of the sum of the squares.
namespace daso {

struct Norms {
  double first = 0;
  double second = 0;
};

// The sums of the squares of two tensors in one pass over memory, piece by piece.
class SquareSums {
 public:
  // So many sums of a tensor run side by side, each of every kSums-th element: whole vectors, in
  // every table.
  static constexpr std::size_t kSums = kernels::kSquareSums;

  // Both have the same number of elements, and all pieces but the last a multiple of kSums. Or
  // `second` is empty, and the first counts alone.
  void add(std::span<const float> first, std::span<const float> second,
           const Kernels& kernels = cpu_kernels());
  Norms norms() const;

 private:
  std::array<double, kSums> first_{};
  std::array<double, kSums> second_{};
};

// Of two tensors with the same number of elements, in one pass; each is what norm_of() gives.
Norms norms_of(std::span<const float> first, std::span<const float> second,
               const Kernels& kernels = cpu_kernels());
double norm_of(std::span<const float> values, const Kernels& kernels = cpu_kernels());

}  // namespace daso
