// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstddef>
#include <span>
#include <vector>

#include "daso/comm/communicator.h"

namespace daso::tcp {

// into = one after the other of `terms`, in their order, so that all ranks have the same bits.
// Numbers of 16 bits are added in fp32 and rounded once; integers wrap. `into` may be one of the
// terms. All have the elements of `into`.
void reduce_in_order(const std::vector<std::span<const std::byte>>& terms, Reduce how,
                     at::ScalarType type, std::span<std::byte> into);

}  // namespace daso::tcp
