// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/scalar.h"
#include "daso/optim/ema_loop.h"

namespace daso::kernels {

std::size_t ema_scalar(const EmaUpdate& update) { return ema_loop<simd::Scalar>(update); }

}  // namespace daso::kernels
