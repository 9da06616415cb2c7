// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "daso/comm/backend.h"
#include "daso/comm/tcp/engine.h"

namespace daso::tcp {

// The ranks of the plan as a c10d::Backend named "tcp", which has what Communicator needs. Any
// number of operations are in flight at once. Sums are taken in the order of ranks, so that all
// ranks have the same bits, in every run. The mailbox is connected with all of them.
c10::intrusive_ptr<c10d::Backend> make_group(std::shared_ptr<Engine> engine, const GroupPlan& plan);

}  // namespace daso::tcp
