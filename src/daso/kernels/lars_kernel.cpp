// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/lars_kernel.h"

#include "daso/base/error.h"
#include "daso/kernels/kernel_versions.h"
#include "daso/kernels/lars_loop.h"

namespace daso {
namespace {

constexpr KernelVersions<kernels::LarsUpdate> kLars = DASO_KERNEL_VERSIONS(lars);

}  // namespace

void lars_update(const LarsStep& step, std::span<const float> gradients,
                 std::span<float> parameters, std::span<float> velocity, InstructionSet set) {
  DASO_ASSERT(gradients.size() == parameters.size() && velocity.size() == parameters.size());
  kernels::LarsUpdate update{.gradients = gradients.data(),
                             .parameters = parameters.data(),
                             .velocity = velocity.data(),
                             .elements = parameters.size(),
                             .rate = step.rate,
                             .momentum = step.momentum,
                             .weight_decay = step.weight_decay};
  const std::size_t done = kLars(update, set);
  update.gradients += done;
  update.parameters += done;
  update.velocity += done;
  update.elements -= done;
  kLars.scalar(update);
}

}  // namespace daso
