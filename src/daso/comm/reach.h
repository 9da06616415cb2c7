// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/network.h"
#include "daso/comm/rendezvous.h"

// Which connection it was, when ranks do not come together. A backend only says that it is not
// done. So every rank has a door: a socket that listens where its connections arrive and that
// nobody ever passes. Trying the doors costs nothing until something has failed.
namespace daso {

// What went wrong with each address, in their order; empty: a connection was made. Tries all of
// them at once and ends within the limit.
std::vector<std::string> try_doors(const std::vector<Address>& doors, Seconds limit);

// The first of the ranks that cannot be reached from rank `own`, as a sentence: rank 3 (node1 on
// host b) cannot reach rank 0 (node0 on host a) at 10.0.0.1:34567: ...
std::optional<std::string> broken_pair(const std::vector<Member>& members,
                                       const std::vector<int>& ranks, int own, Seconds limit);

}  // namespace daso
