// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/lars_kernel.h"

#include "daso/base/error.h"
#include "daso/optim/lars_loop.h"

namespace daso {
namespace {

std::size_t whole_vectors(const kernels::LarsUpdate& update, InstructionSet set) {
  require(is_supported(set), "an update with {} was asked for, which this processor lacks",
          name_of(set));
#ifdef __x86_64__
  switch (set) {
    case InstructionSet::kAvx512:
      return kernels::lars_avx512(update);
    case InstructionSet::kAvx2:
      return kernels::lars_avx2(update);
    case InstructionSet::kScalar:
      break;
  }
#endif
  return kernels::lars_scalar(update);
}

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
  const std::size_t done = whole_vectors(update, set);
  update.gradients += done;
  update.parameters += done;
  update.velocity += done;
  update.elements -= done;
  kernels::lars_scalar(update);
}

}  // namespace daso
