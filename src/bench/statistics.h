// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/comm/communicator.h"

// Numbers into one: of repetitions, and of the ranks of a job, where all get the same answer.
namespace daso::bench {

// Of at least one value; the mean of the two in the middle where their number is even.
double median(std::vector<double> values);

// The value below which Student's t of so many degrees of freedom, at least 1, lies with this
// probability, 0.5 ... below 1: 12.706 for 0.975 and 1.
double student_t(double probability, int degrees);

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
