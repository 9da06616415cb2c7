// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"

// What every backend must do, whatever it is made of. Each function is called by all ranks of a
// world of any size and fails by GoogleTest's EXPECT.
namespace daso::test {

struct Conformance {
  const char* name;
  void (*check)(World& world);
};

const std::vector<Conformance>& conformance_checks();

}  // namespace daso::test
