// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/cadence.h"

#include "daso/base/error.h"

namespace daso {

void validate(const Cadence& cadence) {
  require(cadence.skip >= 1, "skip must be at least 1, got {}", cadence.skip);
  require(cadence.wait >= 1 && cadence.wait <= cadence.skip,
          "wait must lie in 1 ... skip ({}), got {}: more than one exchange in flight diverges",
          cadence.skip, cadence.wait);
}

}  // namespace daso
