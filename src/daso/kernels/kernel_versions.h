// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daso/base/error.h"
#include "daso/kernels/instruction_set.h"

namespace daso {

// A loop in one version per instruction set, each in a file of its own (cmake/kernels.cmake). A
// version does as many whole vectors as there are and says how many elements that were; the rest is
// for the scalar one, whose vectors are of one element.
template <typename Work>
struct KernelVersions {
  using Version = std::size_t (*)(const Work& work);
  Version scalar;
  Version avx2;  // null, as the next, where the processor is of another kind
  Version avx512;

  // Throws ConfigError where the processor lacks the set.
  std::size_t operator()(const Work& work, InstructionSet set) const {
    require(is_supported(set), "a loop for {} was asked for, which this processor lacks",
            name_of(set));
    if (set == InstructionSet::kAvx512) return avx512(work);
    return set == InstructionSet::kAvx2 ? avx2(work) : scalar(work);
  }
};

// Of kernels::NAME_scalar and the others.
#ifdef __x86_64__
#define DASO_KERNEL_VERSIONS(name) \
  { kernels::name##_scalar, kernels::name##_avx2, kernels::name##_avx512 }
#else
#define DASO_KERNEL_VERSIONS(name) \
  { kernels::name##_scalar, nullptr, nullptr }
#endif

}  // namespace daso
