// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/adamw_loop.h"
#include "daso/kernels/simd/avx2.h"

namespace daso::kernels {

std::size_t adamw_avx2(const AdamwUpdate& update) { return adamw_loop<simd::Avx2>(update); }

}  // namespace daso::kernels
