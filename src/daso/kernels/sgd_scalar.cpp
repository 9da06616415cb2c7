// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/sgd_loop.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {

std::size_t sgd_scalar(const SgdUpdate& update) { return sgd_loop<simd::Scalar>(update); }

}  // namespace daso::kernels
