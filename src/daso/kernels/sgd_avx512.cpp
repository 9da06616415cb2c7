// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/sgd_loop.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {

std::size_t sgd_avx512(const SgdUpdate& update) { return sgd_loop<simd::Avx512>(update); }

}  // namespace daso::kernels
