// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx512.h"
#include "daso/global/kernel_loops.h"

namespace daso::kernels {

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = make_kernels<simd::Avx512>();
  return kKernels;
}

}  // namespace daso::kernels
