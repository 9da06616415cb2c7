// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/tensor/state.h"

namespace daso {

// Turns the flat gradients of a FlatModel into a change of its flat parameters, in place.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string name() const = 0;  // "sgd"
  virtual void step(double learning_rate) = 0;

  // The state that an agreement averages: flat tensors with the layout of the parameters.
  virtual std::vector<at::Tensor> moments() const = 0;
  // Steps done, which an agreement makes equal.
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;
  // The averaged parameters, where the optimizer keeps an average (ema.h); else undefined. It is
  // one of the moments.
  virtual at::Tensor average() const { return {}; }

  virtual State state() const = 0;
  virtual void load_state(const State& state) = 0;
};

}  // namespace daso
