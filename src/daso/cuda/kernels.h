// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/kernels.h"

namespace daso::cuda {

// The table of the current device, whichever GPU that is: its kernels are launched on the calling
// thread's current stream and return at once. The lists of terms of means lie with the host, and
// may go when the call returns.
const Kernels& kernels();

}  // namespace daso::cuda
