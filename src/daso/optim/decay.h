// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daso/tensor/flat_model.h"

namespace daso {

// Which tensors weight decay applies to.
struct DecayOptions {
  bool all = true;  // false: not to those of one dimension or none (biases, scales and shifts)
  std::vector<std::string> except;  // nor to those whose names begin with one of these (names.h)
};

// Throws ConfigError where it is below 0 or not finite.
void check_weight_decay(double weight_decay);

// Of the tensor with this span.
bool decays(const FlatModel& model, std::size_t span, const DecayOptions& options);

// Neighbouring elements of a flat tensor that an optimizer treats alike.
struct DecayRun {
  std::size_t offset = 0;
  std::size_t elements = 0;
  bool decays = true;
};

// The flat parameters, padding included, as runs with and without weight decay; without exceptions
// that is one run. Throws ConfigError for a name that no parameter has.
std::vector<DecayRun> decay_runs(const FlatModel& model, const DecayOptions& options);

}  // namespace daso
