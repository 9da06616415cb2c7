// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/decay.h"
#include "daso/optim/moment_optimizer.h"
#include "daso/tensor/flat_model.h"

namespace daso {

struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  DecayOptions decay;
};

// Throws ConfigError.
void validate(const AdamwOptions& options);

// AdamW as PyTorch defines it, in one pass (adamw_kernel.h). steps() tells how far the moments are
// from their start at zero; an agreement that raises it raises all ranks' alike.
class AdamW : public MomentOptimizer {
 public:
  // The model is borrowed. Throws ConfigError.
  AdamW(FlatModel& model, const AdamwOptions& options);

  void step(double learning_rate) override;

 private:
  const AdamwOptions options_;
  const std::vector<DecayRun> runs_;
  const at::Tensor first_;   // running mean of the gradients
  const at::Tensor second_;  // running mean of their squares
};

}  // namespace daso
