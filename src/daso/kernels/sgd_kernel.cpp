// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/sgd_kernel.h"

#include "daso/base/error.h"
#include "daso/kernels/kernel_versions.h"
#include "daso/kernels/sgd_loop.h"

namespace daso {
namespace {

constexpr KernelVersions<kernels::SgdUpdate> kSgd = DASO_KERNEL_VERSIONS(sgd);

}  // namespace

void sgd_update(const SgdStep& step, std::span<const float> gradients, std::span<float> parameters,
                std::span<float> velocity, InstructionSet set) {
  DASO_ASSERT(gradients.size() == parameters.size());
  DASO_ASSERT(velocity.empty() || velocity.size() == parameters.size());
  DASO_ASSERT(!velocity.empty() || parameters.empty() || (step.momentum == 0 && !step.nesterov));
  kernels::SgdUpdate update{.gradients = gradients.data(),
                            .parameters = parameters.data(),
                            .velocity = velocity.empty() ? nullptr : velocity.data(),
                            .elements = parameters.size(),
                            .learning_rate = step.learning_rate,
                            .momentum = step.momentum,
                            .weight_decay = step.weight_decay,
                            .nesterov = step.nesterov,
                            .first = step.first};
  const std::size_t done = kSgd(update, set);
  update.gradients += done;
  update.parameters += done;
  if (update.velocity != nullptr) update.velocity += done;
  update.elements -= done;
  kSgd.scalar(update);
}

}  // namespace daso
