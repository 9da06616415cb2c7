// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/lamb_kernel.h"

#include "daso/base/error.h"
#include "daso/base/power.h"
#include "daso/kernels/kernel_versions.h"
#include "daso/kernels/lamb_loop.h"
#include "daso/kernels/moment_factors.h"

namespace daso {
namespace {

kernels::LambFactors factors_of(const LambStep& step) {
  return {.moments = moment_factors(step),
          .first_scale = static_cast<float>(1 / (1 - power(step.beta1, step.number))),
          .weight_decay = static_cast<float>(step.weight_decay)};
}

constexpr KernelVersions<kernels::LambMoments> kMoments = DASO_KERNEL_VERSIONS(lamb_moments);
constexpr KernelVersions<kernels::LambUpdate> kUpdate = DASO_KERNEL_VERSIONS(lamb_update);

}  // namespace

void lamb_moments(const LambStep& step, std::span<const float> gradients,
                  std::span<const float> parameters, std::span<float> first,
                  std::span<float> second, std::span<float> change, InstructionSet set) {
  DASO_ASSERT(gradients.size() == parameters.size() && change.size() == parameters.size());
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  kernels::LambMoments moments{.gradients = gradients.data(),
                               .parameters = parameters.data(),
                               .first = first.data(),
                               .second = second.data(),
                               .change = change.data(),
                               .elements = parameters.size(),
                               .factors = factors_of(step)};
  const std::size_t done = kMoments(moments, set);
  moments.gradients += done;
  moments.parameters += done;
  moments.first += done;
  moments.second += done;
  moments.change += done;
  moments.elements -= done;
  kMoments.scalar(moments);
}

void lamb_update(const LambStep& step, float rate, std::span<const float> first,
                 std::span<const float> second, std::span<float> parameters, InstructionSet set) {
  DASO_ASSERT(first.size() == parameters.size() && second.size() == parameters.size());
  kernels::LambUpdate update{.parameters = parameters.data(),
                             .first = first.data(),
                             .second = second.data(),
                             .elements = parameters.size(),
                             .factors = factors_of(step),
                             .rate = rate};
  const std::size_t done = kUpdate(update, set);
  update.parameters += done;
  update.first += done;
  update.second += done;
  update.elements -= done;
  kUpdate.scalar(update);
}

}  // namespace daso
