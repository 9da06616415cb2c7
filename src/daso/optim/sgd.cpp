// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/sgd.h"

#include <ATen/ATen.h>

#include "daso/kernels/update.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

Sgd::Sgd(FlatModel& model, const OptimizerOptions& options)
    : MomentOptimizer(model, "sgd"),
      options_(options),
      runs_(decay_runs(model, options)),
      velocity_(options.momentum > 0 ? add_moment("velocity") : at::Tensor()) {
  validate(options);
}

void Sgd::step(double learning_rate) {
  SgdStep step{.learning_rate = static_cast<float>(learning_rate),
               .momentum = static_cast<float>(options_.momentum),
               .nesterov = options_.nesterov,
               .first = steps_ == 0};
  const Kernels& kernels = kernels_of(model_.parameters());
  const std::span<const float> gradients = floats(model_.gradients());
  const std::span<float> parameters = floats(model_.parameters());
  const std::span<float> velocity = velocity_.defined() ? floats(velocity_) : std::span<float>();
  for (const ElementRun& run : runs_) {
    step.weight_decay = run.decays ? static_cast<float>(options_.weight_decay) : 0;
    sgd_update(step, run.of(gradients), run.of(parameters), run.of(velocity), kernels);
  }
  ++steps_;
}

}  // namespace daso
