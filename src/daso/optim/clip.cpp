// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/clip.h"

#include <ATen/ATen.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/kernels/norm.h"
#include "daso/tensor/large_tensor.h"

namespace daso {

double clip_by_norm(FlatModel& model, double largest) {
  require(std::isfinite(largest) && largest > 0,
          "the largest norm of the gradients must be above 0, got {}", largest);
  const double norm = norm_of(floats(model.gradients()));
  const double scale = largest / (norm + 1e-6);
  if (std::isfinite(norm) && scale < 1) model.gradients().mul_(scale);
  return norm;
}

}  // namespace daso
