// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "daso/tensor/lane.h"

namespace daso::test {

// A stand-in for a device's lane where there is no device: tensors lie in memory of the host, but
// not in that of host_room(), and a thread of its own copies between the two, in order and late.
// Who reads what has not been copied yet, or changes what is still to be copied, gets other bits,
// and a data race.
//
// The caller is late as well: its marks are reached after a while, and the lane waits for those
// that it follows. Work that nothing orders behind the caller's is refused with an exception: what
// is asked for between lead_caller() and following a mark that was made after it.
struct LateLaneOptions {
  Seconds late{0.0005};
  const std::atomic<bool>* hangs = nullptr;    // while it is true no copy gets done
  std::atomic<std::int64_t>* bytes = nullptr;  // counts what is copied
};
std::unique_ptr<Lane> late_lane_with(const LateLaneOptions& options);
std::unique_ptr<Lane> late_lane();

}  // namespace daso::test
