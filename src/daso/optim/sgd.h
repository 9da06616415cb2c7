// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/decay.h"
#include "daso/optim/moment_optimizer.h"
#include "daso/tensor/flat_model.h"

namespace daso {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  DecayOptions decay;
};

// Stochastic gradient descent as PyTorch defines it, in one pass (sgd_kernel.h).
class Sgd : public MomentOptimizer {
 public:
  // The model is borrowed.
  Sgd(FlatModel& model, const SgdOptions& options);

  void step(double learning_rate) override;

 private:
  const SgdOptions options_;
  const std::vector<DecayRun> runs_;
  const at::Tensor velocity_;  // empty without momentum
};

}  // namespace daso
