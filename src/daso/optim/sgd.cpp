// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/sgd.h"

#include <ATen/ATen.h>

#include "daso/kernels/update.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

Sgd::Sgd(FlatModel& model, const OptimizerOptions& options)
    : MomentOptimizer(model, "sgd"),
      options_(options),
      runs_(decay_runs(model, options), options.weight_decay, model.parameters().device()),
      velocity_(options.momentum > 0 ? add_moment("velocity") : at::Tensor()) {
  validate(options);
}

void Sgd::step(double learning_rate) {
  const SgdStep step{.learning_rate = static_cast<float>(learning_rate),
                     .momentum = static_cast<float>(options_.momentum),
                     .nesterov = options_.nesterov,
                     .first = steps_ == 0};
  sgd_update(step, runs_.runs(), floats(model_.gradients()), floats(model_.parameters()),
             velocity_.defined() ? floats(velocity_) : std::span<float>(),
             kernels_of(model_.parameters()));
  ++steps_;
}

}  // namespace daso
