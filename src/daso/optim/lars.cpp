// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/lars.h"

#include <ATen/ATen.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/kernels/lars_kernel.h"
#include "daso/kernels/norm.h"
#include "daso/optim/decay.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

LarsOptions checked(const LarsOptions& options) {
  require(options.momentum >= 0 && options.momentum < 1,
          "momentum must be in 0 ... 1, below 1, got {}", options.momentum);
  require(std::isfinite(options.trust) && options.trust > 0,
          "the trust coefficient must be above 0, got {}", options.trust);
  check_weight_decay(options.weight_decay);
  return options;
}

}  // namespace

Lars::Lars(FlatModel& model, const LarsOptions& options)
    : MomentOptimizer(model, "lars"),
      options_(checked(options)),
      runs_(layer_runs(model, options.no_decay)),
      velocity_(add_moment("velocity")) {}

void Lars::step(double learning_rate) {
  const std::span<const float> gradients = floats(model_.gradients());
  const std::span<float> parameters = floats(model_.parameters());
  const std::span<float> velocity = floats(velocity_);
  for (const LayerRun& run : runs_) {
    const std::span<const float> g = gradients.subspan(run.offset, run.elements);
    const std::span<float> w = parameters.subspan(run.offset, run.elements);
    const double decay = run.decays ? options_.weight_decay : 0;
    LarsStep step{.rate = static_cast<float>(learning_rate),
                  .momentum = static_cast<float>(options_.momentum),
                  .weight_decay = static_cast<float>(decay)};
    if (run.adapts) {
      const auto [size, slope] = norms_of(w, g);
      // Without a gradient the rate stays as it is, although decay alone would give a ratio.
      step.rate =
          rate_by_norms(learning_rate, slope > 0 ? options_.trust * size : 0, slope + decay * size);
    }
    lars_update(step, g, w, velocity.subspan(run.offset, run.elements));
  }
  ++steps_;
}

}  // namespace daso
