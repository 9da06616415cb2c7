// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace daso {

// cos(pi * part) for a part of 0 ... 1, right to 2e-16, and exactly 1, 0 and -1 at 0, 1/2 and 1.
// The same bits everywhere: std::cos may choose its instructions by processor, and ranks on unlike
// machines would then differ in the last bit.
double cos_pi(double part);

}  // namespace daso
