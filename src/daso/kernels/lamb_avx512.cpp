// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/lamb_loop.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {

std::size_t lamb_moments_avx512(const LambMoments& moments) {
  return lamb_moments_loop<simd::Avx512>(moments);
}

std::size_t lamb_update_avx512(const LambUpdate& update) {
  return lamb_update_loop<simd::Avx512>(update);
}

}  // namespace daso::kernels
