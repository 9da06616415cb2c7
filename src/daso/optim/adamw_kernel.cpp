// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/adamw_kernel.h"

#include <cmath>

#include "daso/base/error.h"
#include "daso/optim/adamw_loop.h"
#include "daso/optim/power.h"

namespace daso {
namespace {

std::size_t whole_vectors(const kernels::AdamwUpdate& update, InstructionSet set) {
  require(is_supported(set), "an update with {} was asked for, which this processor lacks",
          name_of(set));
#ifdef __x86_64__
  switch (set) {
    case InstructionSet::kAvx512:
      return kernels::adamw_avx512(update);
    case InstructionSet::kAvx2:
      return kernels::adamw_avx2(update);
    case InstructionSet::kScalar:
      break;
  }
#endif
  return kernels::adamw_scalar(update);
}

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
  const std::size_t done = whole_vectors(update, set);
  update.gradients += done;
  update.parameters += done;
  update.first += done;
  update.second += done;
  update.elements -= done;
  kernels::adamw_scalar(update);
}

}  // namespace daso
