// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx2.h"
#include "daso/optim/ema_loop.h"

namespace daso::kernels {

std::size_t ema_avx2(const EmaUpdate& update) { return ema_loop<simd::Avx2>(update); }

}  // namespace daso::kernels
