// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/norm.h"

#include <cmath>

#include "daso/base/error.h"

namespace daso {

Norms norms_of(std::span<const float> first, std::span<const float> second,
               const Kernels& kernels) {
  DASO_ASSERT(kernels.host && first.size() == second.size());
  Norms sums;
  if (first.empty()) return sums;
  kernels.squares({.first = first.data(),
                   .second = second.data(),
                   .elements = first.size(),
                   .first_sum = &sums.first,
                   .second_sum = &sums.second});
  return {std::sqrt(sums.first), std::sqrt(sums.second)};
}

double norm_of(std::span<const float> values, const Kernels& kernels) {
  DASO_ASSERT(kernels.host);
  double sum = 0;
  kernels.squares({.first = values.data(),
                   .second = nullptr,
                   .elements = values.size(),
                   .first_sum = &sum,
                   .second_sum = nullptr});
  return std::sqrt(sum);
}

}  // namespace daso
