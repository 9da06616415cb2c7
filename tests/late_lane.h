// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daso/tensor/lane.h"

namespace daso::test {

// A stand-in for a device's lane where there is no device: tensors lie in memory of the host, but
// not in that of host_room(), and a thread of its own copies between the two, in order and late. Who
// reads what has not been copied yet, or changes what is still to be copied, gets other bits, and a
// data race.
std::unique_ptr<Lane> late_lane();

}  // namespace daso::test
