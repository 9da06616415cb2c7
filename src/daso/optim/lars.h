// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/optim/layerwise.h"
#include "daso/optim/moment_optimizer.h"
#include "daso/tensor/flat_model.h"

namespace daso {

struct LarsOptions {
  double momentum = 0.9;
  double trust = 0.001;  // how far a step goes, as a part of a tensor's norm, at a rate of 1
  double weight_decay = 5e-4;
  std::vector<std::string> no_decay;  // prefixes of names (names.h)
};

// Layer-wise adaptive rate scaling (You, Gitman, Ginsburg, arXiv 1708.03888, algorithm 1). The
// learning rate of a tensor w with gradient g is multiplied by
//   trust * |w| / (|g| + weight_decay * |w|)
// or by 1 where |w| or |g| is 0. Biases and norms, tensors of one dimension or none, take it as it
// is and do not decay. Two passes: both norms (norm.h), then the step (lars_kernel.h).
class Lars : public MomentOptimizer {
 public:
  // The model is borrowed. Throws ConfigError.
  Lars(FlatModel& model, const LarsOptions& options);

  void step(double learning_rate) override;

 private:
  const LarsOptions options_;
  const std::vector<LayerRun> runs_;
  const at::Tensor velocity_;  // learning rates included, as the paper has it
};

}  // namespace daso
