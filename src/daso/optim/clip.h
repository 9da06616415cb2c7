// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/tensor/flat_model.h"

namespace daso {

// Scales the gradients so that their norm is `largest` at most, by
// min(1, largest / (norm + 1e-6)) as PyTorch does, and returns the norm that they had. A norm that
// is not finite is returned and the gradients stay as they are: scaling would hide where that comes
// from. Throws ConfigError unless `largest` is above 0.
double clip_by_norm(FlatModel& model, double largest);

}  // namespace daso
