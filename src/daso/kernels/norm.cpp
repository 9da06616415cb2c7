// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/norm.h"

#include <cmath>

#include "daso/base/error.h"

namespace daso {
namespace {

using Sums = std::array<double, SquareSums::kSums>;

double root_of_all(Sums sums) {
  for (std::size_t half = sums.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return std::sqrt(sums[0]);
}

}  // namespace

void SquareSums::add(std::span<const float> first, std::span<const float> second,
                     const Kernels& kernels) {
  DASO_ASSERT(second.empty() || second.size() == first.size());
  kernels.squares({.first = first.data(),
                   .second = second.empty() ? nullptr : second.data(),
                   .elements = first.size(),
                   .first_sums = first_.data(),
                   .second_sums = second_.data()});
}

Norms SquareSums::norms() const { return {root_of_all(first_), root_of_all(second_)}; }

Norms norms_of(std::span<const float> first, std::span<const float> second,
               const Kernels& kernels) {
  DASO_ASSERT(first.size() == second.size());
  SquareSums sums;
  sums.add(first, second, kernels);
  return sums.norms();
}

double norm_of(std::span<const float> values, const Kernels& kernels) {
  SquareSums sums;
  sums.add(values, {}, kernels);
  return sums.norms().first;
}

}  // namespace daso
