// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/scalar.h"
#include "daso/optim/lars_loop.h"

namespace daso::kernels {

std::size_t lars_scalar(const LarsUpdate& update) { return lars_loop<simd::Scalar>(update); }

}  // namespace daso::kernels
