// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/ema_kernel.h"

#include "daso/base/error.h"
#include "daso/optim/ema_loop.h"

namespace daso {
namespace {

std::size_t whole_vectors(const kernels::EmaUpdate& update, InstructionSet set) {
  require(is_supported(set), "an update with {} was asked for, which this processor lacks",
          name_of(set));
#ifdef __x86_64__
  switch (set) {
    case InstructionSet::kAvx512:
      return kernels::ema_avx512(update);
    case InstructionSet::kAvx2:
      return kernels::ema_avx2(update);
    case InstructionSet::kScalar:
      break;
  }
#endif
  return kernels::ema_scalar(update);
}

}  // namespace

void ema_update(float take, std::span<const float> values, std::span<float> average,
                InstructionSet set) {
  DASO_ASSERT(values.size() == average.size());
  kernels::EmaUpdate update{
      .values = values.data(), .average = average.data(), .elements = values.size(), .take = take};
  const std::size_t done = whole_vectors(update, set);
  update.values += done;
  update.average += done;
  update.elements -= done;
  kernels::ema_scalar(update);
}

}  // namespace daso
