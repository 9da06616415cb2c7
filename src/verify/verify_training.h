// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "verify/golden_case.h"
#include "verify/verdict.h"

namespace daso::verify {

// Trains a golden case with the strategy `daso` as one rank of a world that has its ranks on its
// nodes, comparing after every step. Returns what all ranks have found together, the same on all.
Verdict verify_training(World& world, const TrainingCase& training, ExchangeKind exchange,
                        Wire wire);

}  // namespace daso::verify
