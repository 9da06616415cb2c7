// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx2.h"
#include "daso/optim/sgd_loop.h"

namespace daso::kernels {

std::size_t sgd_avx2(const SgdUpdate& update) { return sgd_loop<simd::Avx2>(update); }

}  // namespace daso::kernels
