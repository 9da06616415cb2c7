// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "daso/kernels/instruction_set.h"

namespace daso {

// A number that tells copies apart that should be equal and are not: of the values' bits, their
// order and their number, in one pass at the speed of memory. A change of one element always
// changes it; changes of several cancel with a probability of about 2^-32, unless somebody makes
// them to: it keeps no secret.
// Same value on every instruction set; it never leaves the run, so a later version may have
// another.
std::uint64_t digest_of(std::span<const float> values, InstructionSet set = best_instruction_set());

}  // namespace daso
