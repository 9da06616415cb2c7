// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/scalar.h"
#include "daso/optim/adamw_loop.h"

namespace daso::kernels {

std::size_t adamw_scalar(const AdamwUpdate& update) { return adamw_loop<simd::Scalar>(update); }

}  // namespace daso::kernels
