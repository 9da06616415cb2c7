// SPDX-License-Identifier: Apache-2.0
#include "daso/data/rows_kernel.h"

#include "daso/base/error.h"
#include "daso/base/kernel_versions.h"
#include "daso/data/rows_loop.h"

namespace daso {
namespace {

constexpr KernelVersions<kernels::RowSum> kRows = DASO_KERNEL_VERSIONS(rows);

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
  const std::size_t done = kRows(rest, set);
  rest.rows += done;
  rest.sum += done;
  rest.values -= done;
  kRows.scalar(rest);
}

}  // namespace daso
