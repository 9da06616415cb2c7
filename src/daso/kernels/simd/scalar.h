// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "daso/kernels/host_device.h"

// A vector of one element. The three files of this folder have the same interface, and kernels are
// templates over it: written once, compiled per instruction set in a file of its own. Every
// operation rounds by itself, so all sets give the same bits; there is no fused multiply-add.
//
// Such a file must not use inline functions of the standard library or of ours that others use,
// too: the linker keeps one copy, which could be the one with instructions that the machine lacks.
// For the same reason each set has a vector of one element of its own, One, for what is left of an
// array behind the last whole vector: `User` tells them apart. On a GPU every thread works with it.
namespace daso::simd {

template <typename User>
struct OneElement {
  using One = OneElement;
  static constexpr std::size_t kLanes = 1;
  using Floats = float;
  using Words = std::uint32_t;  // the same lanes as 32-bit integers

  DASO_HOST_DEVICE static Floats all(float value) { return value; }
  // On a GPU floats lie where floats may, and are read at once.
  DASO_HOST_DEVICE static Floats load(const void* from) {
#ifdef __CUDA_ARCH__
    return *static_cast<const float*>(from);
#else
    return copied<float>(from);
#endif
  }
  DASO_HOST_DEVICE static void store(void* to, Floats a) {
#ifdef __CUDA_ARCH__
    *static_cast<float*>(to) = a;
#else
    std::memcpy(to, &a, sizeof a);
#endif
  }

  DASO_HOST_DEVICE static Floats add(Floats a, Floats b) { return a + b; }
  DASO_HOST_DEVICE static Floats subtract(Floats a, Floats b) { return a - b; }
  DASO_HOST_DEVICE static Floats multiply(Floats a, Floats b) { return a * b; }
  DASO_HOST_DEVICE static Floats divide(Floats a, Floats b) { return a / b; }
  DASO_HOST_DEVICE static Floats square_root(Floats a) {
#ifdef __CUDA_ARCH__
    return __fsqrt_rn(a);
#else
    return __builtin_sqrtf(a);
#endif
  }
  // Between -limit and limit; a is finite.
  DASO_HOST_DEVICE static Floats clamped(Floats a, float limit) {
    return a > limit ? limit : a < -limit ? -limit : a;
  }
  DASO_HOST_DEVICE static Floats at_most(Floats a, float limit) { return a < limit ? a : limit; }

  // Sums in double, fewer to a vector. add_squares() takes as many floats; a square is exact, so
  // only the addition rounds.
  static constexpr std::size_t kDoubles = 1;
  using Doubles = double;
  DASO_HOST_DEVICE static Doubles load_doubles(const void* from) { return copied<double>(from); }
  DASO_HOST_DEVICE static void store_doubles(void* to, Doubles a) { std::memcpy(to, &a, sizeof a); }
  DASO_HOST_DEVICE static Doubles add_squares(Doubles sums, const void* floats) {
    const double value = copied<float>(floats);
    return sums + value * value;
  }

  // Writes past the caches; `to` is a multiple of 64, and so is `bytes`. fence() after the last.
  static void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  }
  static void fence() {}

  // The larger one of running and the magnitude of a, as bits: positive numbers are ordered like
  // their bits, and NaN lies above infinity.
  DASO_HOST_DEVICE static Words no_words() { return 0; }
  DASO_HOST_DEVICE static Words larger_magnitude(Words running, Floats a) {
    const Words magnitude = __builtin_bit_cast(Words, a) & 0x7fffffffU;
    return magnitude > running ? magnitude : running;
  }
  DASO_HOST_DEVICE static std::uint32_t largest(Words a) { return a; }

  // Whole numbers modulo 2^32. rounded() is half to even; a lies within 2^31.
  DASO_HOST_DEVICE static Words all_words(std::uint32_t value) { return value; }
  DASO_HOST_DEVICE static Words numbered(std::uint32_t first) {
    return first;
  }  // first, first + 1, ...
  DASO_HOST_DEVICE static Words add_words(Words a, Words b) { return a + b; }
  DASO_HOST_DEVICE static Words multiply_words(Words a, Words b) { return a * b; }
  DASO_HOST_DEVICE static Words xor_words(Words a, Words b) { return a ^ b; }
  template <int kBits>
  DASO_HOST_DEVICE static Words shifted_right(Words a) {
    return a >> kBits;
  }
  DASO_HOST_DEVICE static Words rounded(Floats a) { return static_cast<Words>(nearest(a)); }

  // Rounded half to even and clamped to -127 ... 127; a is finite.
  DASO_HOST_DEVICE static void store_int8(std::byte* to, Floats a) {
    const std::int32_t whole = nearest(a);
    *to = static_cast<std::byte>(whole > 127 ? 127 : whole < -127 ? -127 : whole);
  }
  DASO_HOST_DEVICE static Floats load_int8(const std::byte* from) {
    return static_cast<float>(static_cast<std::int8_t>(*from));
  }

  // A byte each, 0 ... 255.
  DASO_HOST_DEVICE static void store_bytes(std::byte* to, Words a) {
    *to = static_cast<std::byte>(a);
  }
  DASO_HOST_DEVICE static Floats load_bytes(const std::byte* from) {
    return static_cast<float>(static_cast<std::uint8_t>(*from));
  }

  // Rounded to nearest even; a is finite, and so is what it rounds to.
  DASO_HOST_DEVICE static void store_bf16(std::byte* to, Floats a) {
    const auto bits = __builtin_bit_cast(Words, a);
    const auto half = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
    std::memcpy(to, &half, sizeof half);
  }
  DASO_HOST_DEVICE static Floats load_bf16(const std::byte* from) {
    return __builtin_bit_cast(float, Words{copied<std::uint16_t>(from)} << 16U);
  }

  DASO_HOST_DEVICE static void store_fp16(std::byte* to, Floats a) {
    const auto bits = __builtin_bit_cast(Words, a);
    const Words magnitude = bits & 0x7fffffffU;
    Words half = 0;
    if (magnitude >= 0x38800000U) {  // 2^-14, the smallest normal number
      half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13U) & 1U)) >> 13U;
    } else {  // a multiple of 2^-24
      half = static_cast<Words>(nearest(__builtin_bit_cast(float, magnitude) * 0x1p24F));
    }
    const auto stored = static_cast<std::uint16_t>(half | ((bits >> 16U) & 0x8000U));
    std::memcpy(to, &stored, sizeof stored);
  }
  DASO_HOST_DEVICE static Floats load_fp16(const std::byte* from) {
    const Words half = copied<std::uint16_t>(from);
    const Words magnitude = half & 0x7fffU;
    const Words sign = (half & 0x8000U) << 16U;
    if (magnitude < 0x400U) {  // subnormal
      const float value = static_cast<float>(magnitude) * 0x1p-24F;
      return __builtin_bit_cast(float, __builtin_bit_cast(Words, value) | sign);
    }
    const Words exponent = magnitude >= 0x7c00U ? 0x70000000U : 0x38000000U;
    return __builtin_bit_cast(float, ((magnitude << 13U) + exponent) | sign);
  }

  // One step of a digest: reversible in both arguments, so a change of either is never lost. The
  // rotation brings the high bits, which a product cannot spread, down to where the next one does.
  DASO_HOST_DEVICE static Words load_words(const void* from) { return copied<Words>(from); }
  DASO_HOST_DEVICE static void store_words(void* to, Words a) { std::memcpy(to, &a, sizeof a); }
  DASO_HOST_DEVICE static Words mix(Words running, Words next) {
    const Words product = (running ^ next) * 0x9e3779b1U;
    return (product << 15U) | (product >> 17U);
  }

  // Of three vectors with the bytes of pixels side by side, red, green, blue, red, ...
  struct Colours {
    Floats red;
    Floats green;
    Floats blue;
  };
  static Colours colours_of(Floats a, Floats b, Floats c) { return {a, b, c}; }

  // Vectors of more elements also have
  //   pick(lower, upper, at): lane `at` of two vectors, for each lane, modulo their number,
  //   pick_some(others, lower, upper, at): the same where there is one, and else that of `others`.

 private:
  DASO_HOST_DEVICE static std::int32_t nearest(Floats a) {
#ifdef __CUDA_ARCH__
    return __float2int_rn(a);
#else
    return static_cast<std::int32_t>(__builtin_lrintf(a));
#endif
  }
  template <typename T>
  DASO_HOST_DEVICE static T copied(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
};

using Scalar = OneElement<void>;

}  // namespace daso::simd
