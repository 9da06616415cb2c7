// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/kernel_loops.h"
#include "daso/kernels/simd/avx2.h"

namespace daso::kernels {

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = make_kernels<simd::Avx2>();
  return kKernels;
}

}  // namespace daso::kernels
