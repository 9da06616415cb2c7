// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx2.h"
#include "daso/data/rows_loop.h"

namespace daso::kernels {
namespace {

struct Pixels : simd::Avx2 {
  struct Colours {
    Floats red;
    Floats green;
    Floats blue;
  };

  static Floats load_pixels(const float* row, const std::int32_t* offsets) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row + offsets[0])),
                                _mm_loadu_ps(row + offsets[1]), 1);
  }

  // Pixels 0 and 1 are in a, and so on.
  static Colours colours_of(Floats a, Floats b, Floats c, Floats d) {
    const Floats ab = _mm256_unpacklo_ps(a, b);  // red of 0, red of 2, green of 0, green of 2; 1, 3
    const Floats cd = _mm256_unpacklo_ps(c, d);
    const Floats blue_ab = _mm256_unpackhi_ps(a, b);
    const Floats blue_cd = _mm256_unpackhi_ps(c, d);
    return {in_order(_mm256_shuffle_ps(ab, cd, 0b01'00'01'00)),
            in_order(_mm256_shuffle_ps(ab, cd, 0b11'10'11'10)),
            in_order(_mm256_shuffle_ps(blue_ab, blue_cd, 0b01'00'01'00))};
  }

 private:
  // Of 0, 2, 4, 6, 1, 3, 5, 7.
  static Floats in_order(Floats a) {
    return _mm256_permutevar8x32_ps(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
};

}  // namespace

std::size_t rows_avx2(const RowSum& sum) { return rows_loop<simd::Avx2>(sum); }
std::size_t pixels_avx2(const PixelSum& sum) { return pixels_loop<Pixels>(sum); }

}  // namespace daso::kernels
