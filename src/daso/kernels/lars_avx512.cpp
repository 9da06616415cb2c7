// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/lars_loop.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {

std::size_t lars_avx512(const LarsUpdate& update) { return lars_loop<simd::Avx512>(update); }

}  // namespace daso::kernels
