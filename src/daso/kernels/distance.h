// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "daso/kernels/wire.h"

namespace daso {

// The root mean square of the differences between two encoded ranges of equal length, whole blocks
// of the wire; 0 if they are empty.
double distance_between(Wire wire, std::span<const std::byte> one,
                        std::span<const std::byte> other);

}  // namespace daso
