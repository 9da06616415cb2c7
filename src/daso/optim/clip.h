// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/model/flat_model.h"

namespace daso {

// The square root of the sum of the squares, summed in double in an order that depends on nothing
// but the number of elements: ranks that hold equal values get the same bits, whatever their
// processors and threads are.
double norm_of(std::span<const float> values);

// Scales the gradients so that their norm is `largest` at most, by
// min(1, largest / (norm + 1e-6)) as PyTorch does, and returns the norm that they had. A norm that
// is not finite is returned and the gradients stay as they are: scaling would hide where that comes
// from. Throws ConfigError unless `largest` is above 0.
double clip_by_norm(FlatModel& model, double largest);

}  // namespace daso
