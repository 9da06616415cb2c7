// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daso/comm/backend.h"

namespace daso {

// Gloo over TCP, as it is inside LibTorch: moves data in the background by itself, two operations
// at a time in a group.
std::unique_ptr<Backend> open_gloo();

}  // namespace daso
