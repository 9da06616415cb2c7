// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/kernels/kernels.h"

// Norms that have the same bits on ranks that hold equal values, whatever their processors and
// threads are: sums are in double, in an order that depends on nothing but the number of elements.
// A norm is the square root of the sum of the squares. These are for the CPU's tables, as they
// return values. A GPU's norms have the same bits on every GPU, and differ from the CPU's in the
// last digits.
namespace daso {

struct Norms {
  double first = 0;
  double second = 0;
};

// Of two tensors with the same number of elements, in one pass; each is what norm_of() gives.
Norms norms_of(std::span<const float> first, std::span<const float> second,
               const Kernels& kernels = cpu_kernels());
double norm_of(std::span<const float> values, const Kernels& kernels = cpu_kernels());

}  // namespace daso
