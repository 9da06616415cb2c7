// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/all_loops.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {

const Kernels& scalar_table() {
  static constexpr Kernels kTable = table_over<simd::Scalar>();
  return kTable;
}

}  // namespace daso::kernels
