// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daso/optim/optimizer.h"
#include "daso/tensor/flat_model.h"

namespace daso {

// An optimizer that counts its steps and adds its moments when it is made; what is left to write is
// step(), which raises steps_.
class MomentOptimizer : public Optimizer {
 public:
  std::string name() const override { return name_; }
  std::vector<at::Tensor> moments() const override;
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override { steps_ = steps; }
  // By both names: "sgd.steps", "sgd.velocity".
  State state() const override;
  void load_state(const State& state) override;

 protected:
  // The model is borrowed.
  MomentOptimizer(FlatModel& model, std::string name) : model_(model), name_(std::move(name)) {}

  // Zeros, with the layout of the parameters.
  at::Tensor add_moment(const std::string& name);

  FlatModel& model_;
  std::int64_t steps_ = 0;

 private:
  const std::string name_;
  std::vector<std::pair<std::string, at::Tensor>> moments_;
};

}  // namespace daso
