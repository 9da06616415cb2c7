// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/base/error.h"

namespace daso {

// What this node holds is damaged, and others hold it whole. Its ranks end as those of a node that
// is lost do (kExitPeer), so that its launcher starts it again, and it goes on with what the others
// have. No PeerError: nobody else is gone, and who catches those would go on with the damage.
struct DamagedError : Error {
  using Error::Error;
};

}  // namespace daso
