// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/plateau.h"

#include <algorithm>

namespace daso {

Cadence after_stall(const Cadence& now, const Cadence& initial) {
  if (now.skip == 1) return initial;
  return {.skip = std::max(1, now.skip / 2), .wait = std::max(1, now.wait / 2)};
}

}  // namespace daso
