// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/scalar.h"
#include "daso/global/kernel_loops.h"

namespace daso::kernels {

const Kernels& scalar_kernels() {
  static constexpr Kernels kKernels = make_kernels<simd::Scalar>();
  return kKernels;
}

}  // namespace daso::kernels
