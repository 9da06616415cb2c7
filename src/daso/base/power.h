// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
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

// The same for any exponent of 0 or more, below 2^63, and a base of 0 or more: what is behind the
// exponent's point by square roots, which IEEE 754 defines to the last bit.
inline double real_power(double base, double exponent) {
  const double whole = std::floor(exponent);
  double result = power(base, static_cast<std::int64_t>(whole));
  double root = base;
  // The exponent's binary digits one by one; every step of `rest` is exact.
  for (double rest = exponent - whole; rest > 0;) {
    root = std::sqrt(root);
    rest *= 2;
    if (rest < 1) continue;
    result *= root;
    rest -= 1;
  }
  return result;
}

}  // namespace daso
