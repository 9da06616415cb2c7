// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/rows_loop.h"
#include "daso/kernels/simd/avx2.h"

namespace daso::kernels {
namespace {

struct Pixels : simd::Avx2 {
  struct Colours {
    Floats red;
    Floats green;
    Floats blue;
  };

  // Lane i of a is red for i = 0, 3, 6, that of b for 1, 4, 7 and that of c for 2, 5: no two of
  // them are in each other's way.
  static Colours colours_of(Floats a, Floats b, Floats c) {
    constexpr int kFirst = 0b01001001;
    constexpr int kSecond = 0b10010010;
    constexpr int kThird = 0b00100100;
    const Floats red = _mm256_blend_ps(_mm256_blend_ps(a, b, kSecond), c, kThird);
    const Floats green = _mm256_blend_ps(_mm256_blend_ps(a, b, kThird), c, kFirst);
    const Floats blue = _mm256_blend_ps(_mm256_blend_ps(a, b, kFirst), c, kSecond);
    const Words every_third = _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5);
    const Words one = all_words(1);
    const Words next = add_words(every_third, one);
    return {_mm256_permutevar8x32_ps(red, every_third), _mm256_permutevar8x32_ps(green, next),
            _mm256_permutevar8x32_ps(blue, add_words(next, one))};
  }

  static Floats at_most(Floats a, float limit) { return _mm256_min_ps(a, all(limit)); }
  static Floats pick(Floats lower, Floats upper, Words at) {
    const Words in_upper = _mm256_slli_epi32(at, 28);  // the bit of 8 becomes that of the sign
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(lower, at),
                            _mm256_permutevar8x32_ps(upper, at), _mm256_castsi256_ps(in_upper));
  }
  static Floats pick_some(Floats others, Floats lower, Floats upper, Words at) {
    const Words some = _mm256_cmpeq_epi32(_mm256_srli_epi32(at, 4), no_words());
    return _mm256_blendv_ps(others, pick(lower, upper, at), _mm256_castsi256_ps(some));
  }
};

}  // namespace

std::size_t rows_avx2(const RowSum& sum) { return rows_loop<Pixels>(sum); }
std::size_t pixels_avx2(const PixelSum& sum) { return pixels_loop<Pixels>(sum); }

}  // namespace daso::kernels
