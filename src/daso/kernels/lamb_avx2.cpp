// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/lamb_loop.h"
#include "daso/kernels/simd/avx2.h"

namespace daso::kernels {

std::size_t lamb_moments_avx2(const LambMoments& moments) {
  return lamb_moments_loop<simd::Avx2>(moments);
}

std::size_t lamb_update_avx2(const LambUpdate& update) {
  return lamb_update_loop<simd::Avx2>(update);
}

}  // namespace daso::kernels
