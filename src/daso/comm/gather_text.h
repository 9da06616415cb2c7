// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/comm/communicator.h"

namespace daso {

// A text from every rank, in rank order, on all ranks.
std::vector<std::string> gather_text(Communicator& ranks, const std::string& own, Seconds limit);

}  // namespace daso
