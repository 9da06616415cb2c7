// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/rotation.h"

#include <algorithm>

#include "daso/base/error.h"

namespace daso {

std::vector<int> leaders_of(std::int64_t exchange, const std::vector<int>& ranks_per_node) {
  DASO_ASSERT(exchange >= 0 && !ranks_per_node.empty());
  const int largest = *std::max_element(ranks_per_node.begin(), ranks_per_node.end());
  const auto turn = static_cast<int>(exchange % largest);
  std::vector<int> leaders;
  leaders.reserve(ranks_per_node.size());
  for (const int ranks : ranks_per_node) leaders.push_back(turn % ranks);
  return leaders;
}

}  // namespace daso
