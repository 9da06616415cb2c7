// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "daso/comm/backend.h"
#include "daso/comm/mpi/progress.h"

namespace daso::mpi {

// The ranks of the plan as a c10d::Backend named "mpi". It has what Communicator needs: allreduce,
// _reduce_scatter_base, _allgather_base, broadcast, alltoall_base, send, recv, barrier; and throws
// ConfigError on the spot for what it cannot do. Every operation has the plan's limit, or the one
// of its options. Whoever waits for a late one reports it; one that is still not done seconds later
// ends the process (lost.h). Tensors have any number of elements: what MPI cannot count in one call
// (2^31 - 1) travels in pieces.
//
// Groups are made one after the other, so all ranks make those they share in the same order.
c10::intrusive_ptr<c10d::Backend> make_group(std::shared_ptr<Progress> progress,
                                             const GroupPlan& plan);

}  // namespace daso::mpi
