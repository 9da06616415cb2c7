// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "daso/model/flat_model.h"

namespace daso {

// Neighbouring elements of a flat tensor that an optimizer treats alike.
struct DecayRun {
  std::size_t offset = 0;
  std::size_t elements = 0;
  bool decays = true;
};

// The flat parameters, padding included, as runs with and without weight decay. With `all` that is
// one run; else tensors of one dimension or none (biases, scales and shifts of norms) get no decay.
std::vector<DecayRun> decay_runs(const FlatModel& model, bool all);

}  // namespace daso
