// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/ema_loop.h"
#include "daso/kernels/simd/avx2.h"

namespace daso::kernels {

std::size_t ema_avx2(const EmaUpdate& update) { return ema_loop<simd::Avx2>(update); }

}  // namespace daso::kernels
