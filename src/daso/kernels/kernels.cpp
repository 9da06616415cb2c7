// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/kernels.h"

#include "daso/base/error.h"

namespace daso::kernels {

const Kernels& kernels_of(InstructionSet set) {
  require(is_supported(set), "kernels for {} were asked for, which this processor lacks",
          name_of(set));
#ifdef __x86_64__
  switch (set) {
    case InstructionSet::kAvx512:
      return avx512_kernels();
    case InstructionSet::kAvx2:
      return avx2_kernels();
    case InstructionSet::kScalar:
      break;
  }
#endif
  return scalar_kernels();
}

const WireKernels& kernels_of(Wire wire, InstructionSet set) {
  return kernels_of(set).wires[static_cast<std::size_t>(wire)];
}

}  // namespace daso::kernels
