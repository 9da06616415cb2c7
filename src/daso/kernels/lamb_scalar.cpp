// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/lamb_loop.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {

std::size_t lamb_moments_scalar(const LambMoments& moments) {
  return lamb_moments_loop<simd::Scalar>(moments);
}

std::size_t lamb_update_scalar(const LambUpdate& update) {
  return lamb_update_loop<simd::Scalar>(update);
}

}  // namespace daso::kernels
