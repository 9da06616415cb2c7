// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/kernel_loops.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = make_kernels<simd::Avx512>();
  return kKernels;
}

}  // namespace daso::kernels
