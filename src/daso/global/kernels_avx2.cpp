// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx2.h"
#include "daso/global/kernel_loops.h"

namespace daso::kernels {

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = make_kernels<simd::Avx2>();
  return kKernels;
}

}  // namespace daso::kernels
