// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "daso/base/error.h"
#include "daso/comm/message_of.h"
#include "daso/comm/world.h"

namespace daso {

// What `act` returns. An error of this rank is told to the others at once: what its caller leaves
// may wait for work in the background, and they would wait for this rank meanwhile.
template <typename Act>
auto with_abandon(World& world, const Act& act) {
  try {
    return act();
  } catch (const PeerError&) {
    throw;  // which they know
  } catch (const std::exception& error) {
    world.abandon(message_of(error));
    throw;
  }
}

}  // namespace daso
