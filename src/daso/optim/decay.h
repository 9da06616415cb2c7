// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "daso/optim/optimizer.h"
#include "daso/tensor/flat_model.h"

// Which elements of the flat parameters an optimizer treats alike.
namespace daso {

// Neighbouring elements of a flat tensor.
struct ElementRun {
  std::size_t offset = 0;
  std::size_t elements = 0;
  bool decays = true;
  bool adapts = false;  // layer_runs() alone: of more than one dimension

  template <typename Span>
  Span of(Span all) const {
    return all.empty() ? all : all.subspan(offset, elements);
  }
};

// The flat parameters, padding included, as runs with and without weight decay; without exceptions
// that is one run. Throws ConfigError for a name that no parameter has.
std::vector<ElementRun> decay_runs(const FlatModel& model, const OptimizerOptions& options);

// The same for optimizers that choose a rate for each tensor: one run for each, without the
// padding. Tensors of one dimension or none never decay.
std::vector<ElementRun> layer_runs(const FlatModel& model, const OptimizerOptions& options);

}  // namespace daso
