// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/ema_kernel.h"

#include "daso/base/error.h"
#include "daso/kernels/ema_loop.h"
#include "daso/kernels/kernel_versions.h"

namespace daso {
namespace {

constexpr KernelVersions<kernels::EmaUpdate> kEma = DASO_KERNEL_VERSIONS(ema);

}  // namespace

void ema_update(float take, std::span<const float> values, std::span<float> average,
                InstructionSet set) {
  DASO_ASSERT(values.size() == average.size());
  kernels::EmaUpdate update{
      .values = values.data(), .average = average.data(), .elements = values.size(), .take = take};
  const std::size_t done = kEma(update, set);
  update.values += done;
  update.average += done;
  update.elements -= done;
  kEma.scalar(update);
}

}  // namespace daso
