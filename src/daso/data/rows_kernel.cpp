// SPDX-License-Identifier: Apache-2.0
#include "daso/data/rows_kernel.h"

#include "daso/base/error.h"
#include "daso/base/kernel_versions.h"
#include "daso/data/rows_loop.h"

namespace daso {
namespace {

constexpr KernelVersions<kernels::RowSum> kRows = DASO_KERNEL_VERSIONS(rows);
constexpr KernelVersions<kernels::PixelSum> kPixels = DASO_KERNEL_VERSIONS(pixels);

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

void add_pixels(const float* row, const PixelTaps& taps, float* red, std::size_t plane,
                InstructionSet set) {
  const std::size_t pixels = taps.offsets.size();
  DASO_ASSERT(taps.taps >= 1 && taps.weights.size() == 4 * taps.taps * pixels);
  kernels::PixelSum rest{.row = row,
                         .offsets = taps.offsets.data(),
                         .weights = taps.weights.data(),
                         .stride = 4 * pixels,
                         .taps = taps.taps,
                         .red = red,
                         .plane = plane,
                         .pixels = pixels};
  const std::size_t done = kPixels(rest, set);
  rest.offsets += done;
  rest.weights += 4 * done;
  rest.red += done;
  rest.pixels -= done;
  kPixels.scalar(rest);
}

}  // namespace daso
