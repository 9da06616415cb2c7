// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daso/tensor/flat_model.h"

// What optimizers have in common that choose a rate for each tensor.
namespace daso {

// One tensor in a flat one.
struct LayerRun {
  std::size_t offset = 0;
  std::size_t elements = 0;
  bool adapts = true;  // false: tensors of one dimension or none take the learning rate as it is
  bool decays = true;  // false: these, and those that were named
};

// All tensors of the model; the padding is in none. Throws ConfigError for a beginning in
// `no_decay` that no parameter's name has (names.h).
std::vector<LayerRun> layer_runs(const FlatModel& model, const std::vector<std::string>& no_decay);

// The rate times the ratio of two norms, kept within float32. Where one of them is 0, as those of
// tensors that begin with zeros, there is nothing to compare: the rate itself.
float rate_by_norms(double rate, double numerator, double denominator);

}  // namespace daso
