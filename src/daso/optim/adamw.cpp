// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/adamw.h"

#include <ATen/ATen.h>

#include "daso/kernels/update.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

AdamW::AdamW(FlatModel& model, const OptimizerOptions& options)
    : MomentOptimizer(model, "adamw"),
      options_(options),
      runs_(decay_runs(model, options)),
      first_(add_moment("first")),
      second_(add_moment("second")) {
  validate(options);
}

void AdamW::step(double learning_rate) {
  AdamStep step{.learning_rate = learning_rate,
                .beta1 = options_.beta1,
                .beta2 = options_.beta2,
                .epsilon = options_.epsilon,
                .number = steps_ + 1};
  const Kernels& kernels = kernels_of(model_.parameters());
  const std::span<const float> gradients = floats(model_.gradients());
  const std::span<float> parameters = floats(model_.parameters());
  const std::span<float> first = floats(first_);
  const std::span<float> second = floats(second_);
  for (const ElementRun& run : runs_) {
    step.weight_decay = run.decays ? options_.weight_decay : 0;
    adamw_update(step, run.of(gradients), run.of(parameters), run.of(first), run.of(second),
                 kernels);
  }
  ++steps_;
}

}  // namespace daso
