// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/model/flat_model.h"
#include "daso/optim/decay.h"
#include "daso/optim/optimizer.h"

namespace daso {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  DecayOptions decay;
};

// Stochastic gradient descent as PyTorch defines it, in one pass (sgd_kernel.h).
class Sgd : public Optimizer {
 public:
  // The model is borrowed.
  Sgd(FlatModel& model, const SgdOptions& options);

  std::string name() const override { return "sgd"; }
  void step(double learning_rate) override;
  std::vector<at::Tensor> moments() const override;
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override { steps_ = steps; }
  State state() const override;
  void load_state(const State& state) override;

 private:
  FlatModel& model_;
  const SgdOptions options_;
  const std::vector<DecayRun> runs_;
  at::Tensor velocity_;  // empty without momentum
  std::int64_t steps_ = 0;
};

}  // namespace daso
