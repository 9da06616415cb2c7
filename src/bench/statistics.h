// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace daso::bench {

// Of at least one value; the mean of the two in the middle where their number is even.
double median(std::vector<double> values);

}  // namespace daso::bench
