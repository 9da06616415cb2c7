// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/norm_loop.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {

std::size_t squares_avx512(const Squares& squares) { return squares_loop<simd::Avx512>(squares); }

}  // namespace daso::kernels
