// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace daso {

// By squaring: std::pow may choose its instructions by processor, and ranks on unlike machines
// would then differ in the last bit.
inline double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace daso
