// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/rows_kernel.h"

#include "daso/base/error.h"
#include "daso/kernels/kernel_versions.h"
#include "daso/kernels/rows_loop.h"

namespace daso {
namespace {

constexpr KernelVersions<kernels::RowSum> kRows = DASO_KERNEL_VERSIONS(rows);
constexpr KernelVersions<kernels::PixelSum> kPixels = DASO_KERNEL_VERSIONS(pixels);

}  // namespace

void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::size_t pixels, const Planes& sum, InstructionSet set) {
  DASO_ASSERT(!weights.empty());
  const kernels::RowSum work{.rows = reinterpret_cast<const std::byte*>(rows),
                             .stride = stride,
                             .weights = weights.data(),
                             .number = weights.size(),
                             .red = sum.red,
                             .plane = sum.plane,
                             .pixels = pixels};
  if (kRows(work, set) != pixels) kRows.scalar(work);
}

void add_pixels(const Planes& row, const PixelTaps& taps, const ColourScale& scale,
                const Planes& sum, InstructionSet set) {
  const std::size_t pixels = taps.offsets.size();
  DASO_ASSERT(taps.taps >= 1 && taps.weights.size() == taps.taps * pixels);
  const kernels::PixelSum work{.row = row.red,
                               .row_plane = row.plane,
                               .offsets = taps.offsets.data(),
                               .weights = taps.weights.data(),
                               .stride = pixels,
                               .taps = taps.taps,
                               .red = sum.red,
                               .plane = sum.plane,
                               .pixels = pixels,
                               .mean = scale.mean.data(),
                               .factor = scale.factor.data()};
  if (kPixels(work, set) != pixels) kPixels.scalar(work);
}

}  // namespace daso
