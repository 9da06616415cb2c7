// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "daso/kernels/simd/scalar.h"

// As scalar.h, which says what each function means. Needs -mavx2 -mf16c.
namespace daso::simd {

struct Avx2 {
  static constexpr std::size_t kLanes = 8;
  using One = OneElement<Avx2>;
  using Floats = __m256;
  using Words = __m256i;

  static Floats all(float value) { return _mm256_set1_ps(value); }
  static Floats load(const void* from) { return _mm256_loadu_ps(static_cast<const float*>(from)); }
  static void store(void* to, Floats a) { _mm256_storeu_ps(static_cast<float*>(to), a); }

  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
  static Floats square_root(Floats a) { return _mm256_sqrt_ps(a); }
  static Floats clamped(Floats a, float limit) {
    return _mm256_min_ps(_mm256_max_ps(a, all(-limit)), all(limit));
  }

  static constexpr std::size_t kDoubles = 4;
  using Doubles = __m256d;
  static Doubles load_doubles(const void* from) {
    return _mm256_loadu_pd(static_cast<const double*>(from));
  }
  static void store_doubles(void* to, Doubles a) { _mm256_storeu_pd(static_cast<double*>(to), a); }
  static Doubles add_squares(Doubles sums, const void* floats) {
    const Doubles values = _mm256_cvtps_pd(_mm_loadu_ps(static_cast<const float*>(floats)));
    return _mm256_add_pd(sums, _mm256_mul_pd(values, values));
  }

  static void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                          _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i)));
    }
  }
  static void fence() { _mm_sfence(); }

  static Words no_words() { return _mm256_setzero_si256(); }
  static Words larger_magnitude(Words running, Floats a) {
    const Words magnitude = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fffffff));
    return _mm256_max_epi32(running, magnitude);
  }
  static std::uint32_t largest(Words a) {
    __m128i most = _mm_max_epi32(low_half(a), high_half(a));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0b01'00'11'10));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0b10'11'00'01));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(most));
  }

  static Words all_words(std::uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
  static Words numbered(std::uint32_t first) {
    return add_words(all_words(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Words add_words(Words a, Words b) { return _mm256_add_epi32(a, b); }
  static Words multiply_words(Words a, Words b) { return _mm256_mullo_epi32(a, b); }
  static Words xor_words(Words a, Words b) { return _mm256_xor_si256(a, b); }
  template <int kBits>
  static Words shifted_right(Words a) {
    return _mm256_srli_epi32(a, kBits);
  }
  static Words rounded(Floats a) { return _mm256_cvtps_epi32(a); }

  static void store_int8(std::byte* to, Floats a) {
    // The packing clamps to -128 ... 127.
    const Words above = _mm256_max_epi32(rounded(a), _mm256_set1_epi32(-127));
    const __m128i words = _mm_packs_epi32(low_half(above), high_half(above));
    _mm_storeu_si64(to, _mm_packs_epi16(words, words));
  }
  static Floats load_int8(const std::byte* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(from)));
  }

  static void store_bytes(std::byte* to, Words a) {
    const __m128i words = _mm_packus_epi32(low_half(a), high_half(a));
    _mm_storeu_si64(to, _mm_packus_epi16(words, words));
  }
  static Floats load_bytes(const std::byte* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si64(from)));
  }

  static void store_bf16(std::byte* to, Floats a) {
    const Words bits = _mm256_castps_si256(a);
    const Words odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const Words bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const Words half = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m128i packed = _mm_packus_epi32(low_half(half), high_half(half));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), packed);
  }
  static Floats load_bf16(const std::byte* from) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }

  static void store_fp16(std::byte* to, Floats a) {
    const __m128i half = _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), half);
  }
  static Floats load_fp16(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }

  static Words load_words(const void* from) {
    return _mm256_loadu_si256(static_cast<const Words*>(from));
  }
  static void store_words(void* to, Words a) { _mm256_storeu_si256(static_cast<Words*>(to), a); }
  static Words mix(Words running, Words next) {
    const Words factor = _mm256_set1_epi32(static_cast<int>(0x9e3779b1U));
    const Words product = _mm256_mullo_epi32(_mm256_xor_si256(running, next), factor);
    return _mm256_or_si256(_mm256_slli_epi32(product, 15), _mm256_srli_epi32(product, 17));
  }

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

 private:
  static __m128i low_half(Words a) { return _mm256_castsi256_si128(a); }
  static __m128i high_half(Words a) { return _mm256_extracti128_si256(a, 1); }
};

}  // namespace daso::simd
