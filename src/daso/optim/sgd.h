// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/optimizer.h"
#include "daso/optim/runs.h"

namespace daso {

// Stochastic gradient descent as PyTorch defines it, in one pass: sgd_update() of kernels/update.h.
class Sgd : public MomentOptimizer {
 public:
  // The model is borrowed. Throws ConfigError.
  Sgd(FlatModel& model, const OptimizerOptions& options);

  void step(double learning_rate) override;

 private:
  const OptimizerOptions options_;
  const RunTable runs_;
  const at::Tensor velocity_;  // undefined without momentum
};

}  // namespace daso
