// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/layerwise.h"

#include <ATen/ATen.h>

#include "daso/kernels/update.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

Lars::Lars(FlatModel& model, const OptimizerOptions& options)
    : MomentOptimizer(model, "lars"),
      options_(options),
      runs_(layer_runs(model, options), options.weight_decay, model.parameters().device()),
      velocity_(add_moment("velocity")) {
  validate(options);
}

void Lars::step(double learning_rate) {
  const LarsStep step{.learning_rate = learning_rate,
                      .trust = options_.trust,
                      .momentum = static_cast<float>(options_.momentum)};
  lars_update(step, runs_.runs(), floats(model_.gradients()), floats(model_.parameters()),
              floats(velocity_), kernels_of(model_.parameters()));
  ++steps_;
}

Lamb::Lamb(FlatModel& model, const OptimizerOptions& options)
    : MomentOptimizer(model, "lamb"),
      options_(options),
      runs_(layer_runs(model, options), options.weight_decay, model.parameters().device()),
      first_(add_moment("first")),
      second_(add_moment("second")) {
  validate(options);
}

void Lamb::step(double learning_rate) {
  const AdamStep step{.learning_rate = learning_rate,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .epsilon = options_.epsilon,
                      .number = steps_ + 1};
  lamb_update(step, runs_.runs(), floats(model_.gradients()), floats(model_.parameters()),
              floats(first_), floats(second_), kernels_of(model_.parameters()));
  ++steps_;
}

}  // namespace daso
