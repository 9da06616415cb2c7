// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/run/run.h"

namespace daso {

// A place in the deal of the examples of an epoch.
struct DealSeat {
  int number = 0;
  int of = 1;
  bool operator==(const DealSeat&) const = default;
};

// This rank's, of the epoch under way: as it was dealt, if the run goes on in the middle of one in
// another view, and else dealt to all that are there. All ranks call it together.
DealSeat take_seat(World& world, Run& run);

}  // namespace daso
