// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/tensor/state.h"

namespace daso {

// The state that one rank has, on all ranks; what the others pass does not count. It travels as
// bytes, whatever the types.
State spread(World& world, int from, const State& own);

}  // namespace daso
