// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/adamw_kernel.h"

#include <cmath>

#include "daso/base/error.h"
#include "daso/base/kernel_versions.h"
#include "daso/base/power.h"
#include "daso/optim/adamw_loop.h"

namespace daso {
namespace {

constexpr KernelVersions<kernels::AdamwUpdate> kAdamw = DASO_KERNEL_VERSIONS(adamw);

}  // namespace

void adamw_update(const AdamwStep& step, std::span<const float> gradients,
                  std::span<float> parameters, std::span<float> first, std::span<float> second,
                  InstructionSet set) {
  DASO_ASSERT(gradients.size() == parameters.size());
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  DASO_ASSERT(step.number >= 1);
  const double first_sum = 1 - power(step.beta1, step.number);
  const double second_sum = 1 - power(step.beta2, step.number);
  kernels::AdamwUpdate update{
      .gradients = gradients.data(),
      .parameters = parameters.data(),
      .first = first.data(),
      .second = second.data(),
      .elements = parameters.size(),
      .keep = static_cast<float>(1 - step.learning_rate * step.weight_decay),
      .first_keep = static_cast<float>(step.beta1),
      .first_take = static_cast<float>(1 - step.beta1),
      .second_keep = static_cast<float>(step.beta2),
      .second_take = static_cast<float>(1 - step.beta2),
      .second_scale = static_cast<float>(1 / std::sqrt(second_sum)),
      .rate = static_cast<float>(step.learning_rate / first_sum),
      .epsilon = static_cast<float>(step.epsilon)};
  const std::size_t done = kAdamw(update, set);
  update.gradients += done;
  update.parameters += done;
  update.first += done;
  update.second += done;
  update.elements -= done;
  kAdamw.scalar(update);
}

}  // namespace daso
