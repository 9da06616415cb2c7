// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/comm/communicator.h"

namespace daso {

// A text from every rank, in rank order, on all ranks.
std::vector<std::string> gather_text(Communicator& ranks, const std::string& own, Seconds limit);

// The same on rank 0 alone, for long texts: the others get nothing and never hold more than a piece
// of each.
std::vector<std::string> gather_text_on_first(Communicator& ranks, const std::string& own,
                                              Seconds limit);

}  // namespace daso
