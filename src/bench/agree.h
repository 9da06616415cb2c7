// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/communicator.h"

// One number from every rank, the same answer on all.
namespace daso::bench {

struct OverRanks {
  double smallest = 0;
  double mean = 0;
  double largest = 0;
};
OverRanks over_ranks(Communicator& ranks, double own, Seconds limit);

double sum_of(Communicator& ranks, double own, Seconds limit);

// Does it hold on every rank?
bool all_agree(Communicator& ranks, bool own, Seconds limit);

}  // namespace daso::bench
