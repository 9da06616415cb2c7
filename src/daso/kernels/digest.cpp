// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/digest.h"

#include "daso/base/error.h"

namespace daso {

std::uint64_t digest_of(std::span<const float> values, const Kernels& kernels) {
  DASO_ASSERT(kernels.host);
  std::uint64_t digest = 0;
  kernels.digest({values.data(), values.size(), &digest});
  return digest;
}

bool all_finite(std::span<const float> values, const Kernels& kernels) {
  DASO_ASSERT(kernels.host);
  std::uint32_t overflow = 0;
  kernels.finite_check({values.data(), values.size(), &overflow});
  return overflow == 0;
}

}  // namespace daso
