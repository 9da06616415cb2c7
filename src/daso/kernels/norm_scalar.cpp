// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/norm_loop.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {

std::size_t squares_scalar(const Squares& squares) { return squares_loop<simd::Scalar>(squares); }

}  // namespace daso::kernels
