// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/stall.h"

#include "daso/base/error.h"

namespace daso {
namespace {

// Below best, not at it, by the threshold's part of its size. Comparisons with NaN are false.
bool is_better(double loss, double best, double threshold) {
  return loss < best * (best < 0 ? 1 + threshold : 1 - threshold);
}

}  // namespace

void validate(const StallOptions& options) {
  require(options.patience >= 0, "patience takes 0 epochs or more, got {}", options.patience);
  require(options.threshold >= 0 && options.threshold < 1,
          "threshold is the part by which the loss must fall, 0 ... below 1, got {}",
          options.threshold);
}

bool stalls(const StallOptions& options, StallState& state, double loss) {
  if (is_better(loss, state.best, options.threshold)) {
    state = {.best = loss, .bad_epochs = 0};
    return false;
  }
  ++state.bad_epochs;
  if (state.bad_epochs <= options.patience) return false;
  state.bad_epochs = 0;
  return true;
}

}  // namespace daso
