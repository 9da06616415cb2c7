// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Between rows_kernel.cpp and the versions of its loops per instruction set; the rules of
// base/simd/scalar.h hold.
namespace daso::kernels {

struct RowSum {
  const std::byte* rows;  // the first; others follow at a distance of `stride`
  std::size_t stride;
  const float* weights;  // of each row
  std::size_t number;    // of rows, at least 1
  float* sum;
  std::size_t values;  // of a row
};

struct PixelSum {
  const float* row;  // three colours of a pixel side by side; one value more than the last needs
  const std::int32_t* offsets;  // for each pixel of the sum, where in the row its first tap lies
  const float* weights;         // of the first taps, each four times; others follow at `stride`
  std::size_t stride;
  std::size_t taps;  // at least 1
  float* red;        // green and blue follow at a distance of `plane`
  std::size_t plane;
  std::size_t pixels;  // of the sum
};

// Each does as many whole vectors as there are and says how many values, or pixels, that were.
std::size_t rows_scalar(const RowSum& sum);
std::size_t rows_avx2(const RowSum& sum);
std::size_t rows_avx512(const RowSum& sum);
std::size_t pixels_scalar(const PixelSum& sum);
std::size_t pixels_avx2(const PixelSum& sum);
std::size_t pixels_avx512(const PixelSum& sum);

template <typename V>
std::size_t rows_loop(const RowSum& s) {
  const std::size_t whole = s.values / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) {
    typename V::Floats sum = V::multiply(V::all(s.weights[0]), V::load_bytes(s.rows + i));
    for (std::size_t row = 1; row < s.number; ++row) {
      const typename V::Floats values = V::load_bytes(s.rows + row * s.stride + i);
      sum = V::add(sum, V::multiply(V::all(s.weights[row]), values));
    }
    V::store(s.sum + i, sum);
  }
  return whole;
}

// V is a vector of base/simd that also has
//   load_pixels(row, offsets): as many pixels as fit, each with the value behind it,
//   Colours{red, green, blue} and colours_of(a, b, c, d): the colours of four such vectors.
// kTaps is the number of taps where that is known to the compiler, which then needs no loop; else
// 0.
template <typename V, std::size_t kTaps>
typename V::Floats pixels_from(const PixelSum& s, std::size_t x) {
  const std::size_t taps = kTaps == 0 ? s.taps : kTaps;
  const float* row = s.row;
  const float* weights = s.weights + 4 * x;
  typename V::Floats sum = V::multiply(V::load(weights), V::load_pixels(row, s.offsets + x));
  for (std::size_t i = 1; i < taps; ++i) {
    row += 3;
    weights += s.stride;
    const typename V::Floats values = V::load_pixels(row, s.offsets + x);
    sum = V::add(sum, V::multiply(V::load(weights), values));
  }
  return sum;
}

template <typename V, std::size_t kTaps>
std::size_t pixels_by_taps(const PixelSum& s) {
  constexpr std::size_t kFit = V::kLanes / 4;
  const std::size_t whole = s.pixels / V::kLanes * V::kLanes;
  for (std::size_t x = 0; x < whole; x += V::kLanes) {
    const typename V::Colours colours = V::colours_of(
        pixels_from<V, kTaps>(s, x), pixels_from<V, kTaps>(s, x + kFit),
        pixels_from<V, kTaps>(s, x + 2 * kFit), pixels_from<V, kTaps>(s, x + 3 * kFit));
    float* const red = s.red + x;
    V::store(red, V::clamped(colours.red, 1));
    V::store(red + s.plane, V::clamped(colours.green, 1));
    V::store(red + 2 * s.plane, V::clamped(colours.blue, 1));
  }
  return whole;
}

// Two taps where pixels become more, three where they become a little fewer.
template <typename V>
std::size_t pixels_loop(const PixelSum& s) {
  if (s.taps == 2) return pixels_by_taps<V, 2>(s);
  if (s.taps == 3) return pixels_by_taps<V, 3>(s);
  return pixels_by_taps<V, 0>(s);
}

}  // namespace daso::kernels
