// SPDX-License-Identifier: Apache-2.0
#include "daso/data/rows_kernel.h"

#include "daso/base/error.h"
#include "daso/data/rows_loop.h"

namespace daso {
namespace {

std::size_t whole_vectors(const kernels::RowSum& sum, InstructionSet set) {
  require(is_supported(set), "a sum with {} was asked for, which this processor lacks",
          name_of(set));
#ifdef __x86_64__
  switch (set) {
    case InstructionSet::kAvx512:
      return kernels::rows_avx512(sum);
    case InstructionSet::kAvx2:
      return kernels::rows_avx2(sum);
    case InstructionSet::kScalar:
      break;
  }
#endif
  return kernels::rows_scalar(sum);
}

}  // namespace

void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::span<float> sum, InstructionSet set) {
  DASO_ASSERT(!weights.empty());
  kernels::RowSum rest{.rows = reinterpret_cast<const std::byte*>(rows),
                       .stride = stride,
                       .weights = weights.data(),
                       .number = weights.size(),
                       .sum = sum.data(),
                       .values = sum.size()};
  const std::size_t done = whole_vectors(rest, set);
  rest.rows += done;
  rest.sum += done;
  rest.values -= done;
  kernels::rows_scalar(rest);
}

}  // namespace daso
