// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/rows_loop.h"
#include "daso/kernels/simd/avx512.h"

namespace daso::kernels {
namespace {

struct Pixels : simd::Avx512 {
  struct Colours {
    Floats red;
    Floats green;
    Floats blue;
  };

  // Lane i of a is red for i = 0, 3, ..., that of b for 2, 5, ... and that of c for 1, 4, ...: no
  // two of them are in each other's way.
  static Colours colours_of(Floats a, Floats b, Floats c) {
    constexpr __mmask16 kFirst = 0b1001001001001001;
    constexpr __mmask16 kSecond = 0b0010010010010010;
    constexpr __mmask16 kThird = 0b0100100100100100;
    const Floats red = _mm512_mask_blend_ps(kThird, _mm512_mask_blend_ps(kSecond, a, c), b);
    const Floats green = _mm512_mask_blend_ps(kFirst, _mm512_mask_blend_ps(kThird, a, c), b);
    const Floats blue = _mm512_mask_blend_ps(kSecond, _mm512_mask_blend_ps(kFirst, a, c), b);
    const Words every_third =
        _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13);
    const Words one = all_words(1);
    const Words next = add_words(every_third, one);
    return {_mm512_permutexvar_ps(every_third, red), _mm512_permutexvar_ps(next, green),
            _mm512_permutexvar_ps(add_words(next, one), blue)};
  }

  static Floats at_most(Floats a, float limit) { return _mm512_min_ps(a, all(limit)); }
  static Floats pick(Floats lower, Floats upper, Words at) {
    return _mm512_permutex2var_ps(lower, at, upper);
  }
  static Floats pick_some(Floats others, Floats lower, Floats upper, Words at) {
    const __mmask16 some = _mm512_cmplt_epu32_mask(at, all_words(2 * kLanes));
    return _mm512_mask_blend_ps(some, others, pick(lower, upper, at));
  }
};

}  // namespace

std::size_t rows_avx512(const RowSum& sum) { return rows_loop<Pixels>(sum); }
std::size_t pixels_avx512(const PixelSum& sum) { return pixels_loop<Pixels>(sum); }

}  // namespace daso::kernels
