// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/ema_loop.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {

std::size_t ema_scalar(const EmaUpdate& update) { return ema_loop<simd::Scalar>(update); }

}  // namespace daso::kernels
