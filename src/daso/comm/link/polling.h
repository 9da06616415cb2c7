// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "daso/comm/operation.h"

namespace daso {

// What somebody waits for, and for how long.
struct Wait {
  const Guard& guard;
  Call call;
  Seconds limit;
  Deadline deadline = Deadline(limit);
};

// Waits for something that tells nobody when it is done: the work of a device, an entry of the
// store. Asks again and again, at first without a pause. Throws as Pending::wait does when the
// alarm is raised or the limit is over.
void poll(const Wait& wait, const std::function<bool()>& is_done);

}  // namespace daso
