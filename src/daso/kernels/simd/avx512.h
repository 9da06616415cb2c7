// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "daso/kernels/simd/scalar.h"

// As scalar.h, which says what each function means. Needs -mavx512f.
namespace daso::simd {

struct Avx512 {
  static constexpr std::size_t kLanes = 16;
  using One = OneElement<Avx512>;
  using Floats = __m512;
  using Words = __m512i;

  static Floats all(float value) { return _mm512_set1_ps(value); }
  static Floats load(const void* from) { return _mm512_loadu_ps(from); }
  static void store(void* to, Floats a) { _mm512_storeu_ps(to, a); }

  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static Floats square_root(Floats a) { return _mm512_sqrt_ps(a); }
  static Floats clamped(Floats a, float limit) {
    return _mm512_min_ps(_mm512_max_ps(a, all(-limit)), all(limit));
  }

  static constexpr std::size_t kDoubles = 8;
  using Doubles = __m512d;
  static Doubles load_doubles(const void* from) { return _mm512_loadu_pd(from); }
  static void store_doubles(void* to, Doubles a) { _mm512_storeu_pd(to, a); }
  static Doubles add_squares(Doubles sums, const void* floats) {
    const Doubles values = _mm512_cvtps_pd(_mm256_loadu_ps(static_cast<const float*>(floats)));
    return _mm512_add_pd(sums, _mm512_mul_pd(values, values));
  }

  static void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 64) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_load_si512(from + i));
    }
  }
  static void fence() { _mm_sfence(); }

  static Words no_words() { return _mm512_setzero_si512(); }
  static Words larger_magnitude(Words running, Floats a) {
    const Words magnitude = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff));
    return _mm512_max_epi32(running, magnitude);
  }
  static std::uint32_t largest(Words a) {
    return static_cast<std::uint32_t>(_mm512_reduce_max_epi32(a));
  }

  static Words all_words(std::uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
  static Words numbered(std::uint32_t first) {
    return add_words(all_words(first),
                     _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  }
  static Words add_words(Words a, Words b) { return _mm512_add_epi32(a, b); }
  static Words multiply_words(Words a, Words b) { return _mm512_mullo_epi32(a, b); }
  static Words xor_words(Words a, Words b) { return _mm512_xor_si512(a, b); }
  template <int kBits>
  static Words shifted_right(Words a) {
    return _mm512_srli_epi32(a, kBits);
  }
  static Words rounded(Floats a) { return _mm512_cvtps_epi32(a); }

  static void store_int8(std::byte* to, Floats a) {
    // The narrowing clamps to -128 ... 127.
    const Words above = _mm512_max_epi32(rounded(a), _mm512_set1_epi32(-127));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(above));
  }
  static Floats load_int8(const std::byte* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }

  static void store_bytes(std::byte* to, Words a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(a));
  }
  static Floats load_bytes(const std::byte* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
  }

  static void store_bf16(std::byte* to, Floats a) {
    const Words bits = _mm512_castps_si512(a);
    const Words odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const Words bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const Words half = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(half));
  }
  static Floats load_bf16(const std::byte* from) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }

  static void store_fp16(std::byte* to, Floats a) {
    const __m256i half = _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
  }
  static Floats load_fp16(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }

  static Words load_words(const void* from) { return _mm512_loadu_si512(from); }
  static void store_words(void* to, Words a) { _mm512_storeu_si512(to, a); }
  static Words mix(Words running, Words next) {
    const Words factor = _mm512_set1_epi32(static_cast<int>(0x9e3779b1U));
    return _mm512_rol_epi32(_mm512_mullo_epi32(_mm512_xor_si512(running, next), factor), 15);
  }

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

}  // namespace daso::simd
