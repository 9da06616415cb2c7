// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/ema_loop.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {

std::size_t ema_avx512(const EmaUpdate& update) { return ema_loop<simd::Avx512>(update); }

}  // namespace daso::kernels
