// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/lars_loop.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {

std::size_t lars_scalar(const LarsUpdate& update) { return lars_loop<simd::Scalar>(update); }

}  // namespace daso::kernels
