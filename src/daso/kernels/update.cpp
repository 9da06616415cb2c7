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

kernels::LambFactors lamb_factors(const AdamStep& step) {
  return {.moments = moment_factors(step),
          .first_scale = static_cast<float>(1 / (1 - power(step.beta1, step.number))),
          .weight_decay = static_cast<float>(step.weight_decay)};
}

}  // namespace

void sgd_update(const SgdStep& step, std::span<const float> gradients, std::span<float> parameters,
                std::span<float> velocity, const Kernels& kernels) {
  DASO_ASSERT(gradients.size() == parameters.size());
  DASO_ASSERT(velocity.empty() || velocity.size() == parameters.size());
  DASO_ASSERT(!velocity.empty() || parameters.empty() || (step.momentum == 0 && !step.nesterov));
  kernels.sgd({.gradients = gradients.data(),
               .parameters = parameters.data(),
               .velocity = velocity.empty() ? nullptr : velocity.data(),
               .elements = parameters.size(),
               .learning_rate = step.learning_rate,
               .momentum = step.momentum,
               .weight_decay = step.weight_decay,
               .nesterov = step.nesterov,
               .first = step.first});
}

void lars_update(const LarsStep& step, std::span<const float> gradients,
                 std::span<float> parameters, std::span<float> velocity, const Kernels& kernels) {
  DASO_ASSERT(gradients.size() == parameters.size() && velocity.size() == parameters.size());
  kernels.lars({.gradients = gradients.data(),
                .parameters = parameters.data(),
                .velocity = velocity.data(),
                .elements = parameters.size(),
                .rate = step.rate,
                .momentum = step.momentum,
                .weight_decay = step.weight_decay});
}

void adamw_update(const AdamStep& step, std::span<const float> gradients,
                  std::span<float> parameters, std::span<float> first, std::span<float> second,
                  const Kernels& kernels) {
  DASO_ASSERT(gradients.size() == parameters.size());
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  kernels.adamw(
      {.gradients = gradients.data(),
       .parameters = parameters.data(),
       .first = first.data(),
       .second = second.data(),
       .elements = parameters.size(),
       .factors = moment_factors(step),
       .keep = static_cast<float>(1 - step.learning_rate * step.weight_decay),
       .rate = static_cast<float>(step.learning_rate / (1 - power(step.beta1, step.number)))});
}

void lamb_moments(const AdamStep& step, std::span<const float> gradients,
                  std::span<const float> parameters, std::span<float> first,
                  std::span<float> second, std::span<float> change, const Kernels& kernels) {
  DASO_ASSERT(gradients.size() == parameters.size() && change.size() == parameters.size());
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  kernels.lamb_moments({.gradients = gradients.data(),
                        .parameters = parameters.data(),
                        .first = first.data(),
                        .second = second.data(),
                        .change = change.data(),
                        .elements = parameters.size(),
                        .factors = lamb_factors(step)});
}

void lamb_update(const AdamStep& step, std::span<const float> first, std::span<const float> second,
                 std::span<float> parameters, const Kernels& kernels) {
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  kernels.lamb_update({.parameters = parameters.data(),
                       .first = first.data(),
                       .second = second.data(),
                       .elements = parameters.size(),
                       .factors = lamb_factors(step),
                       .rate = static_cast<float>(step.learning_rate)});
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
