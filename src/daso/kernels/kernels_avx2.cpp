// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/all_loops.h"
#include "daso/kernels/simd/avx2.h"

namespace daso::kernels {

const Kernels& avx2_table() {
  static constexpr Kernels kTable = table_over<simd::Avx2>();
  return kTable;
}

}  // namespace daso::kernels
