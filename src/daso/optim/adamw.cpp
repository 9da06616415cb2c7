// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/adamw.h"

#include <ATen/ATen.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/kernels/adamw_kernel.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

AdamwOptions checked(const AdamwOptions& options) {
  validate(options);
  return options;
}

}  // namespace

void validate(const AdamwOptions& options) {
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1 must be in 0 ... 1, below 1, got {}",
          options.beta1);
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2 must be in 0 ... 1, below 1, got {}",
          options.beta2);
  // An element that never had a gradient would become 0 / 0 without it.
  require(std::isfinite(options.epsilon) && static_cast<float>(options.epsilon) > 0,
          "epsilon must be above 0 as a float32, got {}", options.epsilon);
  check_weight_decay(options.weight_decay);
}

AdamW::AdamW(FlatModel& model, const AdamwOptions& options)
    : MomentOptimizer(model, "adamw"),
      options_(checked(options)),
      runs_(decay_runs(model, options.weight_decay == 0 ? DecayOptions{} : options.decay)),
      first_(add_moment("first")),
      second_(add_moment("second")) {}

void AdamW::step(double learning_rate) {
  AdamwStep step{.learning_rate = learning_rate,
                 .beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .epsilon = options_.epsilon,
                 .number = steps_ + 1};
  const std::span<const float> gradients = floats(model_.gradients());
  const std::span<float> parameters = floats(model_.parameters());
  const std::span<float> first = floats(first_);
  const std::span<float> second = floats(second_);
  for (const DecayRun& run : runs_) {
    step.weight_decay = run.decays ? options_.weight_decay : 0;
    adamw_update(step, gradients.subspan(run.offset, run.elements),
                 parameters.subspan(run.offset, run.elements),
                 first.subspan(run.offset, run.elements), second.subspan(run.offset, run.elements));
  }
  ++steps_;
}

}  // namespace daso
