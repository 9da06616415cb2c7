// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace daso {

// Who speaks for its node in an exchange (algorithm.md 6, `rotating`), as local ranks, one per
// node; ranks_per_node[n] is the number of ranks of node n. All ranks of the largest node get their
// turn before one has it again; the ranks of a smaller node come round more often.
std::vector<int> leaders_of(std::int64_t exchange, const std::vector<int>& ranks_per_node);

}  // namespace daso
