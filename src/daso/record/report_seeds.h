// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/record/report_data.h"

// Runs that differ by their seeds alone, as one run of a report.
namespace daso {

// How a record and the figures name what several seeds add to a value.
inline constexpr const char* kLow = "_low";              // the smallest of them, in records
inline constexpr const char* kHigh = "_high";            // the largest
inline constexpr const char* kDeviation = "_deviation";  // the standard deviation, in figures

// Of JSON that has one shape: numbers become their mean, objects and lists are gone through, and
// what cannot be averaged is the first one's. At least one.
nlohmann::json mean_of(const std::vector<nlohmann::json>& values);

// Those of one label, or without one of one configuration but for the seed, become one: figures are
// means with deviations, records means with the smallest and the largest value. In the order of
// their firsts.
std::vector<ReportedRun> seeds_together(std::vector<ReportedRun> runs);

}  // namespace daso
