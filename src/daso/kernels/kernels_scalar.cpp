// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/kernel_loops.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {

const Kernels& scalar_kernels() {
  static constexpr Kernels kKernels = make_kernels<simd::Scalar>();
  return kKernels;
}

}  // namespace daso::kernels
