// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/sgd_loop.h"
#include "daso/kernels/simd/avx2.h"

namespace daso::kernels {

std::size_t sgd_avx2(const SgdUpdate& update) { return sgd_loop<simd::Avx2>(update); }

}  // namespace daso::kernels
