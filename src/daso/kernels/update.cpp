// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/update.h"

#include <cmath>

#include "daso/base/error.h"
#include "daso/base/portable_math.h"

namespace daso {
namespace {

kernels::MomentFactors moment_factors(const AdamStep& step) {
  DASO_ASSERT(step.number >= 1);
  return {.first_keep = static_cast<float>(step.beta1),
          .first_take = static_cast<float>(1 - step.beta1),
          .second_keep = static_cast<float>(step.beta2),
          .second_take = static_cast<float>(1 - step.beta2),
          .second_scale = static_cast<float>(1 / std::sqrt(1 - power(step.beta2, step.number))),
          .epsilon = static_cast<float>(step.epsilon)};
}

}  // namespace

void sgd_update(const SgdStep& step, const kernels::Runs& runs, std::span<const float> gradients,
                std::span<float> parameters, std::span<float> velocity, const Kernels& kernels) {
  DASO_ASSERT(gradients.size() == parameters.size());
  DASO_ASSERT(velocity.empty() || velocity.size() == parameters.size());
  DASO_ASSERT(!velocity.empty() || parameters.empty() || (step.momentum == 0 && !step.nesterov));
  kernels.sgd({.runs = runs,
               .gradients = gradients.data(),
               .parameters = parameters.data(),
               .velocity = velocity.empty() ? nullptr : velocity.data(),
               .learning_rate = step.learning_rate,
               .momentum = step.momentum,
               .nesterov = step.nesterov,
               .first = step.first});
}

void lars_update(const LarsStep& step, const kernels::Runs& runs, std::span<const float> gradients,
                 std::span<float> parameters, std::span<float> velocity, const Kernels& kernels) {
  DASO_ASSERT(gradients.size() == parameters.size() && velocity.size() == parameters.size());
  kernels.lars({.runs = runs,
                .gradients = gradients.data(),
                .parameters = parameters.data(),
                .velocity = velocity.data(),
                .learning_rate = step.learning_rate,
                .trust = step.trust,
                .momentum = step.momentum});
}

void adamw_update(const AdamStep& step, const kernels::Runs& runs, std::span<const float> gradients,
                  std::span<float> parameters, std::span<float> first, std::span<float> second,
                  const Kernels& kernels) {
  DASO_ASSERT(gradients.size() == parameters.size());
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  kernels.adamw(
      {.runs = runs,
       .gradients = gradients.data(),
       .parameters = parameters.data(),
       .first = first.data(),
       .second = second.data(),
       .factors = moment_factors(step),
       .learning_rate = step.learning_rate,
       .rate = static_cast<float>(step.learning_rate / (1 - power(step.beta1, step.number)))});
}

void lamb_update(const AdamStep& step, const kernels::Runs& runs, std::span<const float> gradients,
                 std::span<float> parameters, std::span<float> first, std::span<float> second,
                 const Kernels& kernels) {
  DASO_ASSERT(gradients.size() == parameters.size());
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  kernels.lamb({.runs = runs,
                .gradients = gradients.data(),
                .parameters = parameters.data(),
                .first = first.data(),
                .second = second.data(),
                .factors = moment_factors(step),
                .learning_rate = step.learning_rate,
                .first_scale = static_cast<float>(1 / (1 - power(step.beta1, step.number)))});
}

void ema_update(float take, std::span<const float> values, std::span<float> average,
                const Kernels& kernels) {
  DASO_ASSERT(values.size() == average.size());
  kernels.ema({.values = values.data(),
               .average = average.data(),
               .elements = values.size(),
               .take = take});
}

}  // namespace daso
