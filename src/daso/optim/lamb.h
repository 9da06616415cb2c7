// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/layerwise.h"
#include "daso/optim/moment_optimizer.h"
#include "daso/tensor/flat_model.h"

namespace daso {

struct LambOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  std::vector<std::string> no_decay;  // prefixes of names (names.h)
};

// Adam whose step is as long as the tensor (You et al., arXiv 1904.00962, algorithm 2): with u what
// Adam with decoupled weight decay would change at a rate of 1, bias correction included, the
// learning rate of a tensor w is multiplied by |w| / |u|, or by 1 where one of them is 0. Biases
// and norms, tensors of one dimension or none, take it as it is and do not decay. Two passes
// (lamb_kernel.h).
class Lamb : public MomentOptimizer {
 public:
  // The model is borrowed. Throws ConfigError.
  Lamb(FlatModel& model, const LambOptions& options);

  void step(double learning_rate) override;

 private:
  const LambOptions options_;
  const std::vector<LayerRun> runs_;
  const at::Tensor first_;   // running mean of the gradients
  const at::Tensor second_;  // running mean of their squares
};

}  // namespace daso
