// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/adamw_loop.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {

std::size_t adamw_scalar(const AdamwUpdate& update) { return adamw_loop<simd::Scalar>(update); }

}  // namespace daso::kernels
