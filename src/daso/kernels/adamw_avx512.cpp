// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/adamw_loop.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {

std::size_t adamw_avx512(const AdamwUpdate& update) { return adamw_loop<simd::Avx512>(update); }

}  // namespace daso::kernels
