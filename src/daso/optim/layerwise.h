// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/optimizer.h"
#include "daso/optim/runs.h"

// Optimizers that choose a rate for each tensor, by the ratio of two norms. Biases and norms,
// tensors of one dimension or none, take the learning rate as it is and do not decay. The norms
// have the same bits on ranks with the same kind of device (kernels/norm.h), and so has the rate.
namespace daso {

// Layer-wise adaptive rate scaling (You, Gitman, Ginsburg, arXiv 1708.03888, algorithm 1). The
// learning rate of a tensor w with gradient g is multiplied by
//   trust * |w| / (|g| + weight_decay * |w|)
// or by 1 where |w| or |g| is 0. Two passes: lars_update() of kernels/update.h.
class Lars : public MomentOptimizer {
 public:
  // The model is borrowed. Throws ConfigError.
  Lars(FlatModel& model, const OptimizerOptions& options);

  void step(double learning_rate) override;

 private:
  const OptimizerOptions options_;
  const RunTable runs_;
  const at::Tensor velocity_;  // learning rates included, as the paper has it
};

// Adam whose step is as long as the tensor (You et al., arXiv 1904.00962, algorithm 2): with u what
// Adam with decoupled weight decay would change at a rate of 1, bias correction included, the
// learning rate of a tensor w is multiplied by |w| / |u|, or by 1 where one of them is 0. Two
// passes: lamb_update() of kernels/update.h.
class Lamb : public MomentOptimizer {
 public:
  // The model is borrowed. Throws ConfigError.
  Lamb(FlatModel& model, const OptimizerOptions& options);

  void step(double learning_rate) override;

 private:
  const OptimizerOptions options_;
  const RunTable runs_;
  const at::Tensor first_;   // running mean of the gradients
  const at::Tensor second_;  // running mean of their squares
};

}  // namespace daso
