// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx512.h"
#include "daso/data/rows_loop.h"

namespace daso::kernels {

std::size_t rows_avx512(const RowSum& sum) { return rows_loop<simd::Avx512>(sum); }

}  // namespace daso::kernels
