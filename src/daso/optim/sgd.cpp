// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/sgd.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/model/large_tensor.h"
#include "daso/optim/sgd_kernel.h"

namespace daso {

Sgd::Sgd(FlatModel& model, const SgdOptions& options) : model_(model), options_(options) {
  require(options.momentum >= 0 && options.momentum < 1, "momentum must be in 0 ... 1, got {}",
          options.momentum);
  require(options.weight_decay >= 0, "the weight decay must be 0 or more, got {}",
          options.weight_decay);
  require(!options.nesterov || options.momentum > 0, "Nesterov's method needs a momentum above 0");
  if (options.momentum > 0) {
    velocity_ = large_zeros(model.parameters().sizes(), model.parameters().options());
  }
}

void Sgd::step(double learning_rate) {
  sgd_update({.learning_rate = static_cast<float>(learning_rate),
              .momentum = static_cast<float>(options_.momentum),
              .weight_decay = static_cast<float>(options_.weight_decay),
              .nesterov = options_.nesterov,
              .first = steps_ == 0},
             floats(model_.gradients()), floats(model_.parameters()),
             velocity_.defined() ? floats(velocity_) : std::span<float>());
  ++steps_;
}

std::vector<at::Tensor> Sgd::moments() const {
  return velocity_.defined() ? std::vector{velocity_} : std::vector<at::Tensor>();
}

State Sgd::state() const {
  State state = {{"sgd.steps", integer(steps_)}};
  if (velocity_.defined()) state["sgd.velocity"] = velocity_.clone();
  return state;
}

void Sgd::load_state(const State& state) {
  if (velocity_.defined()) restore(state, "sgd.velocity", velocity_);
  steps_ = integer_in(state, "sgd.steps");
}

}  // namespace daso
