// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "daso/comm/store.h"
#include "daso/comm/world_options.h"

// Where the ranks of a job meet.
namespace daso {

// How long a rank waits for the others at the beginning.
inline Seconds joining_limit(const WorldOptions& options) {
  return options.join_limit.value_or(options.limit);
}

// The store of this rank's job: hosts it where this rank is to do so, connects to it otherwise.
// Throws ConfigError where the place to meet cannot be right, PeerError where nobody is there.
Store open_store(const WorldOptions& options);

// The numeric address at which other ranks connect to this one, once the store is known.
std::string own_address(const WorldOptions& options, const Store& store);

}  // namespace daso
