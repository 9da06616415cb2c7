// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx512.h"
#include "daso/optim/adamw_loop.h"

namespace daso::kernels {

std::size_t adamw_avx512(const AdamwUpdate& update) { return adamw_loop<simd::Avx512>(update); }

}  // namespace daso::kernels
