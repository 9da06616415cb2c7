// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/kernels.h"

// The loops of rows.h, over a vector type V of simd/.
namespace daso::kernels {

// Calls act(first) for vectors that cover all elements. The last one goes back over some that were
// done before, where that is needed. There is at least one vector.
template <typename V, typename Act>
void for_vectors(std::size_t elements, const Act& act) {
  const std::size_t last = elements - V::kLanes;
  for (std::size_t i = 0; i < last; i += V::kLanes) act(i);
  act(last);
}

// The sum of `number` terms from left to right. kNumber is that where the compiler knows it, which
// then needs no loop; else 0.
template <typename V, std::size_t kNumber, typename Term>
[[gnu::always_inline]] inline typename V::Floats sum_of(std::size_t number, const Term& term) {
  typename V::Floats sum = term(0);
  for (std::size_t i = 1; i < (kNumber == 0 ? number : kNumber); ++i) sum = V::add(sum, term(i));
  return sum;
}

// The loops take their work by value: of a reference the compiler must believe that vectors may be
// stored over it.
template <typename V, std::size_t kRows>
void rows_by_number(const RowSum s) {
  for_vectors<V>(s.pixels, [=](std::size_t x) {
    const auto sum_at = [&](std::size_t vector) {
      const std::byte* const first = s.rows + 3 * x + vector * V::kLanes;
      return sum_of<V, kRows>(s.number, [&](std::size_t row) {
        return V::multiply(V::all(s.weights[row]), V::load_bytes(first + row * s.stride));
      });
    };
    const typename V::Colours colours = V::colours_of(sum_at(0), sum_at(1), sum_at(2));
    V::store(s.red + x, colours.red);
    V::store(s.red + s.plane + x, colours.green);
    V::store(s.red + 2 * s.plane + x, colours.blue);
  });
}

// from[at] of each lane, where all of them lie below `span`. A pair of vectors does, where pixels
// do not become much fewer; loads are the same for all taps then, and the compiler keeps them.
template <typename V>
[[gnu::always_inline]] inline typename V::Floats values_at(const float* from, typename V::Words at,
                                                           std::size_t span) {
  if constexpr (V::kLanes == 1) {
    return from[at];
  } else {
    constexpr std::size_t kPair = 2 * V::kLanes;
    static_assert(kPair <= kBehindRow);
    typename V::Floats values = V::pick(V::load(from), V::load(from + V::kLanes), at);
    for (std::size_t pair = kPair; pair < span; pair += kPair) {
      at = V::add_words(at, V::all_words(static_cast<std::uint32_t>(-kPair)));
      values = V::pick_some(values, V::load(from + pair), V::load(from + pair + V::kLanes), at);
    }
    return values;
  }
}

template <typename V, std::size_t kTaps>
void pixels_by_taps(const PixelSum s) {
  for_vectors<V>(s.pixels, [=](std::size_t x) {
    const std::int32_t left = s.offsets[x];
    const std::int32_t right = s.offsets[x + V::kLanes - 1];
    const std::int32_t first = left < right ? left : right;
    const std::size_t span = static_cast<std::size_t>(left + right - 2 * first) + s.taps;
    const typename V::Words at = V::add_words(V::load_words(s.offsets + x),
                                              V::all_words(static_cast<std::uint32_t>(-first)));
    for (std::size_t colour = 0; colour < 3; ++colour) {
      const float* const from = s.row + colour * s.row_plane + first;
      const typename V::Floats sum = sum_of<V, kTaps>(s.taps, [&](std::size_t tap) {
        const typename V::Words next =
            V::add_words(at, V::all_words(static_cast<std::uint32_t>(tap)));
        return V::multiply(V::load(s.weights + tap * s.stride + x), values_at<V>(from, next, span));
      });
      const typename V::Floats above = V::subtract(V::at_most(sum, 1), V::all(s.mean[colour]));
      V::store(s.red + colour * s.plane + x, V::multiply(above, V::all(s.factor[colour])));
    }
  });
}

// Two where pixels become more, three where they become a little fewer.
template <typename V>
void rows_loop(const RowSum& s) {
  if (s.pixels == 0) return;
  if (s.pixels < V::kLanes) return rows_by_number<typename V::One, 0>(s);
  if (s.number == 2) return rows_by_number<V, 2>(s);
  if (s.number == 3) return rows_by_number<V, 3>(s);
  return rows_by_number<V, 0>(s);
}

template <typename V>
void pixels_loop(const PixelSum& s) {
  if (s.pixels == 0) return;
  if (s.pixels < V::kLanes) return pixels_by_taps<typename V::One, 0>(s);
  if (s.taps == 2) return pixels_by_taps<V, 2>(s);
  if (s.taps == 3) return pixels_by_taps<V, 3>(s);
  return pixels_by_taps<V, 0>(s);
}

}  // namespace daso::kernels
