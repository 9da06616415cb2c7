// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx2.h"
#include "daso/optim/lars_loop.h"

namespace daso::kernels {

std::size_t lars_avx2(const LarsUpdate& update) { return lars_loop<simd::Avx2>(update); }

}  // namespace daso::kernels
