// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "daso/kernels/kernels.h"

// What tells values that are as they should be from others, in one pass at the speed of memory.
// These are for the CPU's tables, as they return values; tensor/flat_values.h has them for all
// devices.
namespace daso {

// A number that tells copies apart that should be equal and are not: of the values' bits, their
// order and their number. A change of one element always changes it; changes of several cancel with
// a probability of about 2^-32, unless somebody makes them to: it keeps no secret.
// Same value from every table; it never leaves the run, so a later version may have another.
std::uint64_t digest_of(std::span<const float> values, const Kernels& kernels = cpu_kernels());

bool all_finite(std::span<const float> values, const Kernels& kernels = cpu_kernels());

}  // namespace daso
