// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "cli/candidate.h"
#include "cli/compare_rows.h"
#include "daso/comm/world.h"
#include "daso/run/settings.h"

namespace daso::cli {

struct CompareOptions {
  Settings job;  // what all have in common
  std::vector<Candidate> candidates;
  int seeds = 1;  // runs of each, with seeds from the job's on
  std::optional<double> target_accuracy;
};
// Throws ConfigError.
void validate(const CompareOptions& options);

// What is known after a seed; the last word is the last seed's.
using OnRows = std::function<void(const std::vector<CompareRow>& rows, int seeds_done)>;

// Trains with all candidates on one world. They take turns, epoch by epoch, so that all see the
// same state of the machine. All ranks call it together; rank 0 hears the rows after each seed, so
// that a comparison which is stopped later has not been for nothing.
void compare_runs(World& world, const CompareOptions& options, bool quiet, const OnRows& on_rows);

}  // namespace daso::cli
