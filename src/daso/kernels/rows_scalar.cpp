// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/rows_loop.h"
#include "daso/kernels/simd/scalar.h"

namespace daso::kernels {
namespace {

struct Pixels : simd::Scalar {
  struct Colours {
    Floats red;
    Floats green;
    Floats blue;
  };

  static Colours colours_of(Floats a, Floats b, Floats c) { return {a, b, c}; }
  static Floats at_most(Floats a, float limit) { return a < limit ? a : limit; }
};

}  // namespace

std::size_t rows_scalar(const RowSum& sum) { return rows_loop<Pixels>(sum); }
std::size_t pixels_scalar(const PixelSum& sum) { return pixels_loop<Pixels>(sum); }

}  // namespace daso::kernels
