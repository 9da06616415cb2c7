// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/rows.h"

#include "daso/base/error.h"

namespace daso {

void add_rows(const std::uint8_t* rows, std::size_t stride, std::span<const float> weights,
              std::size_t pixels, const Planes& sum, const Kernels& kernels) {
  DASO_ASSERT(!weights.empty());
  const kernels::RowSum work{.rows = reinterpret_cast<const std::byte*>(rows),
                             .stride = stride,
                             .weights = weights.data(),
                             .number = weights.size(),
                             .red = sum.red,
                             .plane = sum.plane,
                             .pixels = pixels};
  kernels.rows(work);
}

void add_pixels(const Planes& row, const PixelTaps& taps, const ColourScale& scale,
                const Planes& sum, const Kernels& kernels) {
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
  kernels.pixels(work);
}

}  // namespace daso
