// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

// When a loss has stopped falling. The plateau schedules of the learning rate and of exchanges ask.
namespace daso {

struct StallOptions {
  int patience = 2;         // epochs without progress that are forgiven
  double threshold = 0.05;  // relative fall of the loss that counts as progress, 0 ... below 1
};

// Throws ConfigError.
void validate(const StallOptions& options);

struct StallState {
  double best = std::numeric_limits<double>::infinity();
  int bad_epochs = 0;  // in a row, none better than best
  bool operator==(const StallState&) const = default;
};

// Takes the loss of one more epoch; true when it has stalled. NaN is never progress.
bool stalls(const StallOptions& options, StallState& state, double loss);

}  // namespace daso
