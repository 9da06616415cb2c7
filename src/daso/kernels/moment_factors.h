// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "daso/base/error.h"
#include "daso/base/power.h"
#include "daso/kernels/moments_loop.h"

namespace daso {

// Of an AdamwStep or a LambStep: computed in double and rounded to fp32 once.
template <typename Step>
kernels::MomentFactors moment_factors(const Step& step) {
  DASO_ASSERT(step.number >= 1);
  return {.first_keep = static_cast<float>(step.beta1),
          .first_take = static_cast<float>(1 - step.beta1),
          .second_keep = static_cast<float>(step.beta2),
          .second_take = static_cast<float>(1 - step.beta2),
          .second_scale = static_cast<float>(1 / std::sqrt(1 - power(step.beta2, step.number))),
          .epsilon = static_cast<float>(step.epsilon)};
}

}  // namespace daso
