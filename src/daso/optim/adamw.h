// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/optimizer.h"
#include "daso/optim/runs.h"

namespace daso {

// AdamW as PyTorch defines it, in one pass: adamw_update() of kernels/update.h. steps() tells how
// far the moments are from their start at zero; an agreement that raises it raises all ranks'
// alike.
class AdamW : public MomentOptimizer {
 public:
  // The model is borrowed. Throws ConfigError.
  AdamW(FlatModel& model, const OptimizerOptions& options);

  void step(double learning_rate) override;

 private:
  const OptimizerOptions options_;
  const RunTable runs_;
  const at::Tensor first_;   // running mean of the gradients
  const at::Tensor second_;  // running mean of their squares
};

}  // namespace daso
