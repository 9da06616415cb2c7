// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/scalar.h"
#include "daso/optim/sgd_loop.h"

namespace daso::kernels {

std::size_t sgd_scalar(const SgdUpdate& update) { return sgd_loop<simd::Scalar>(update); }

}  // namespace daso::kernels
