// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/launch/launch.h"

namespace daso {

// Starts the ranks of a job that goes on when nodes are lost, and looks after them as launch() does:
// a node that loses a rank leaves as a whole and is started again, while the others decide on a view
// without it and go on (view_keeper.h). Returns 0 if the run was finished, whoever died meanwhile.
int launch_surviving(const LaunchOptions& options);

}  // namespace daso
