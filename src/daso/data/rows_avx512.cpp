// SPDX-License-Identifier: Apache-2.0
#include "daso/base/simd/avx512.h"
#include "daso/data/rows_loop.h"

namespace daso::kernels {
namespace {

struct Pixels : simd::Avx512 {
  struct Colours {
    Floats red;
    Floats green;
    Floats blue;
  };

  static Floats load_pixels(const float* row, const std::int32_t* offsets) {
    const __m512d first = _mm512_castpd256_pd512(two_pixels(row, offsets));
    return _mm512_castpd_ps(_mm512_insertf64x4(first, two_pixels(row, offsets + 2), 1));
  }

  // Pixels 0 ... 3 are in a, and so on.
  static Colours colours_of(Floats a, Floats b, Floats c, Floats d) {
    const Floats ab = _mm512_unpacklo_ps(a, b);  // red of 0, red of 4, green of 0, green of 4; ...
    const Floats cd = _mm512_unpacklo_ps(c, d);
    const Floats blue_ab = _mm512_unpackhi_ps(a, b);
    const Floats blue_cd = _mm512_unpackhi_ps(c, d);
    return {in_order(_mm512_shuffle_ps(ab, cd, 0b01'00'01'00)),
            in_order(_mm512_shuffle_ps(ab, cd, 0b11'10'11'10)),
            in_order(_mm512_shuffle_ps(blue_ab, blue_cd, 0b01'00'01'00))};
  }

 private:
  static __m256d two_pixels(const float* row, const std::int32_t* offsets) {
    const __m256 first = _mm256_castps128_ps256(_mm_loadu_ps(row + offsets[0]));
    return _mm256_castps_pd(_mm256_insertf128_ps(first, _mm_loadu_ps(row + offsets[1]), 1));
  }

  // Of 0, 4, 8, 12, 1, 5, ...
  static Floats in_order(Floats a) {
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), a);
  }
};

}  // namespace

std::size_t rows_avx512(const RowSum& sum) { return rows_loop<simd::Avx512>(sum); }
std::size_t pixels_avx512(const PixelSum& sum) { return pixels_loop<Pixels>(sum); }

}  // namespace daso::kernels
