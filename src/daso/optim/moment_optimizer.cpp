// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/moment_optimizer.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

at::Tensor MomentOptimizer::add_moment(const std::string& name) {
  const at::Tensor& parameters = model_.parameters();
  moments_.emplace_back(name, large_zeros(parameters.sizes(), parameters.options()));
  return moments_.back().second;
}

std::vector<at::Tensor> MomentOptimizer::moments() const {
  std::vector<at::Tensor> all;
  for (const auto& [moment, tensor] : moments_) all.push_back(tensor);
  return all;
}

State MomentOptimizer::state() const {
  State state;
  state[name_ + ".steps"] = integer(steps_);
  for (const auto& [moment, tensor] : moments_) state[name_ + "." + moment] = tensor.clone();
  return state;
}

void MomentOptimizer::load_state(const State& state) {
  const std::int64_t steps = integer_in(state, name_ + ".steps");
  require(steps >= 0, "'{}.steps' of the saved state must be 0 or more, it is {}", name_, steps);
  for (const auto& [moment, tensor] : moments_) restore(state, name_ + "." + moment, tensor);
  steps_ = steps;
}

}  // namespace daso
