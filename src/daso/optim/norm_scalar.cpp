// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/scalar.h"
#include "daso/optim/norm_loop.h"

namespace daso::kernels {

std::size_t squares_scalar(const Squares& squares) { return squares_loop<simd::Scalar>(squares); }

}  // namespace daso::kernels
