// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstddef>
#include <vector>

#include "daso/kernels/kernels.h"
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
};

// The flat parameters, padding included, as runs with and without weight decay; without exceptions
// that is one run. Throws ConfigError for a name that no parameter has.
std::vector<ElementRun> decay_runs(const FlatModel& model, const OptimizerOptions& options);

// The same for optimizers that choose a rate for each tensor: one run for each, without the
// padding. Tensors of one dimension or none never decay.
std::vector<ElementRun> layer_runs(const FlatModel& model, const OptimizerOptions& options);

// Cuts runs into the chunks of a GPU (kernels.h), in their order, and tells each run which are its
// own.
std::vector<kernels::Chunk> cut_in_chunks(std::vector<kernels::Run>& runs);

// Runs as kernels take them, in the memory of the model's device. Made once.
class RunTable {
 public:
  RunTable(const std::vector<ElementRun>& runs, double weight_decay, const at::Device& device);

  kernels::Runs runs() const;

 private:
  std::size_t number_;
  std::size_t number_of_chunks_ = 0;
  at::Tensor runs_;
  at::Tensor chunks_;  // this and the rest for GPUs alone
  at::Tensor sums_;
  at::Tensor arrived_;
  at::Tensor rates_;
};

}  // namespace daso
