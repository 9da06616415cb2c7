// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Functions with the same bits on every machine: those of the standard library may choose their
// instructions by processor, and ranks on unlike machines would then differ in the last bit.
namespace daso {

// By squaring.
double power(double base, std::int64_t exponent);

// The same for any exponent of 0 or more, below 2^63, and a base of 0 or more: what is behind the
// exponent's point by square roots, which IEEE 754 defines to the last bit.
double real_power(double base, double exponent);

// cos(pi * part) for a part of 0 ... 1, right to 2e-16, and exactly 1, 0 and -1 at 0, 1/2 and 1.
double cos_pi(double part);

}  // namespace daso
