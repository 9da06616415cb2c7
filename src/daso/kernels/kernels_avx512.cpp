// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/all_loops.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {

const Kernels& avx512_table() {
  static constexpr Kernels kTable = table_over<simd::Avx512>();
  return kTable;
}

}  // namespace daso::kernels
