// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/adamw_kernel.h"

#include "daso/base/error.h"
#include "daso/base/power.h"
#include "daso/kernels/adamw_loop.h"
#include "daso/kernels/kernel_versions.h"
#include "daso/kernels/moment_factors.h"

namespace daso {
namespace {

constexpr KernelVersions<kernels::AdamwUpdate> kAdamw = DASO_KERNEL_VERSIONS(adamw);

}  // namespace

void adamw_update(const AdamwStep& step, std::span<const float> gradients,
                  std::span<float> parameters, std::span<float> first, std::span<float> second,
                  InstructionSet set) {
  DASO_ASSERT(gradients.size() == parameters.size());
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  kernels::AdamwUpdate update{
      .gradients = gradients.data(),
      .parameters = parameters.data(),
      .first = first.data(),
      .second = second.data(),
      .elements = parameters.size(),
      .factors = moment_factors(step),
      .keep = static_cast<float>(1 - step.learning_rate * step.weight_decay),
      .rate = static_cast<float>(step.learning_rate / (1 - power(step.beta1, step.number)))};
  const std::size_t done = kAdamw(update, set);
  update.gradients += done;
  update.parameters += done;
  update.first += done;
  update.second += done;
  update.elements -= done;
  kAdamw.scalar(update);
}

}  // namespace daso
