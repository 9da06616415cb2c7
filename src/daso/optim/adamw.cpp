// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/adamw.h"

#include <ATen/ATen.h>

#include "daso/kernels/update.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

AdamW::AdamW(FlatModel& model, const OptimizerOptions& options)
    : MomentOptimizer(model, "adamw"),
      options_(options),
      runs_(decay_runs(model, options), options.weight_decay, model.parameters().device()),
      first_(add_moment("first")),
      second_(add_moment("second")) {
  validate(options);
}

void AdamW::step(double learning_rate) {
  const AdamStep step{.learning_rate = learning_rate,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .epsilon = options_.epsilon,
                      .number = steps_ + 1};
  adamw_update(step, runs_.runs(), floats(model_.gradients()), floats(model_.parameters()),
               floats(first_), floats(second_), kernels_of(model_.parameters()));
  ++steps_;
}

}  // namespace daso
