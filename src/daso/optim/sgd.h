// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/decay.h"
#include "daso/optim/optimizer.h"

namespace daso {

// Stochastic gradient descent as PyTorch defines it, in one pass: sgd_update() of kernels/update.h.
class Sgd : public MomentOptimizer {
 public:
  // The model is borrowed. Throws ConfigError.
  Sgd(FlatModel& model, const OptimizerOptions& options);

  void step(double learning_rate) override;

 private:
  const OptimizerOptions options_;
  const std::vector<ElementRun> runs_;
  const at::Tensor velocity_;  // undefined without momentum
};

}  // namespace daso
