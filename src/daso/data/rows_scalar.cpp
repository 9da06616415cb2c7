// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/scalar.h"
#include "daso/data/rows_loop.h"

namespace daso::kernels {

std::size_t rows_scalar(const RowSum& sum) { return rows_loop<simd::Scalar>(sum); }

std::size_t pixels_scalar(const PixelSum& s) {
  for (std::size_t x = 0; x < s.pixels; ++x) {
    for (std::size_t colour = 0; colour < 3; ++colour) {
      const float* value = s.row + s.offsets[x] + colour;
      const float* weight = s.weights + 4 * x;
      float sum = *weight * *value;
      for (std::size_t i = 1; i < s.taps; ++i) {
        value += 3;
        weight += s.stride;
        sum += *weight * *value;
      }
      s.red[x + colour * s.plane] = simd::Scalar::clamped(sum, 1);
    }
  }
  return s.pixels;
}

}  // namespace daso::kernels
