// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/lars_loop.h"
#include "daso/kernels/simd/avx2.h"

namespace daso::kernels {

std::size_t lars_avx2(const LarsUpdate& update) { return lars_loop<simd::Avx2>(update); }

}  // namespace daso::kernels
