// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/sgd.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/kernels/sgd_kernel.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

Sgd::Sgd(FlatModel& model, const SgdOptions& options)
    : MomentOptimizer(model, "sgd"),
      options_(options),
      runs_(decay_runs(model, options.weight_decay == 0 ? DecayOptions{} : options.decay)),
      velocity_(options.momentum > 0 ? add_moment("velocity") : at::Tensor()) {
  require(options.momentum >= 0 && options.momentum < 1,
          "momentum must be in 0 ... 1, below 1, got {}", options.momentum);
  check_weight_decay(options.weight_decay);
  require(!options.nesterov || options.momentum > 0, "Nesterov's method needs a momentum above 0");
}

void Sgd::step(double learning_rate) {
  SgdStep step{.learning_rate = static_cast<float>(learning_rate),
               .momentum = static_cast<float>(options_.momentum),
               .nesterov = options_.nesterov,
               .first = steps_ == 0};
  const std::span<const float> gradients = floats(model_.gradients());
  const std::span<float> parameters = floats(model_.parameters());
  const std::span<float> velocity = velocity_.defined() ? floats(velocity_) : std::span<float>();
  for (const DecayRun& run : runs_) {
    step.weight_decay = run.decays ? static_cast<float>(options_.weight_decay) : 0;
    sgd_update(step, gradients.subspan(run.offset, run.elements),
               parameters.subspan(run.offset, run.elements),
               velocity.empty() ? velocity : velocity.subspan(run.offset, run.elements));
  }
  ++steps_;
}

}  // namespace daso
