// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/gradients.h"

#include <ATen/ATen.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/kernels/norm.h"
#include "daso/tensor/flat_values.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

bool LossScaler::unscale(FlatModel& model) {
  if (!all_finite(model.gradients())) {
    scale_ /= 2;
    good_steps_ = 0;
    if (scale_ >= kLeast) return false;
    throw Error(fmt::format(
        "gradients are not finite although the loss is scaled by {} only: the run has diverged; a "
        "smaller learning rate, a longer warm-up or --precision bf16 may help",
        2 * scale_));
  }
  model.gradients().mul_(1 / scale_);
  if (++good_steps_ == kGrowthInterval) {
    scale_ *= 2;
    good_steps_ = 0;
  }
  return true;
}

void LossScaler::agree_on(double scale, std::int64_t good_steps) {
  DASO_ASSERT(scale <= scale_ && good_steps <= good_steps_);
  scale_ = scale;
  good_steps_ = good_steps;
}

State LossScaler::state() const {
  return {{"scale", real(scale_)}, {"good_steps", integer(good_steps_)}};
}

void LossScaler::load_state(const State& state) {
  scale_ = real_in(state, "scale");
  good_steps_ = integer_in(state, "good_steps");
}

at::Tensor clip_by_norm(FlatModel& model, double largest) {
  require(std::isfinite(largest) && largest > 0,
          "the largest norm of the gradients must be above 0, got {}", largest);
  const at::Tensor& gradients = model.gradients();
  const at::Tensor norm = at::empty({1}, gradients.options().dtype(at::kDouble));
  const Kernels& kernels = kernels_of(gradients);
  if (kernels.host) {
    const double length = norm_of(floats(gradients), kernels);
    const double scale = largest / (length + 1e-6);
    if (std::isfinite(length) && scale < 1) gradients.mul_(scale);
    return norm.fill_(length);
  }
  kernels.clip({.values = floats(gradients).data(),
                .elements = floats(gradients).size(),
                .largest = largest,
                .norm = norm.mutable_data_ptr<double>()});
  return norm;
}

}  // namespace daso
