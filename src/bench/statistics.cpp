// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <algorithm>

#include "daso/base/error.h"

namespace daso::bench {

double median(std::vector<double> values) {
  DASO_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

}  // namespace daso::bench
