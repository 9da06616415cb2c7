// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/scalar.h"
#include "daso/data/rows_loop.h"

namespace daso::kernels {

std::size_t rows_scalar(const RowSum& sum) { return rows_loop<simd::Scalar>(sum); }

}  // namespace daso::kernels
