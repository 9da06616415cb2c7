// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "daso/kernels/kernels.h"
#include "daso/kernels/norm_factors.h"

// Loops that read values and give a few numbers, over a vector type V of simd/: digests, sums of
// squares, and whether all are finite.
namespace daso::kernels {

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled here.

// A digest is the sum of those of its blocks, so these may be computed in any order, by any number
// of threads. A block's depends on its values and on its place.
inline constexpr std::size_t kDigestBlock = 4096;  // elements
inline constexpr std::size_t kDigestLanes = 64;    // each takes every 64th element of a block
inline constexpr std::uint64_t kDigestOfElement = 0x9e3779b97f4a7c15U;  // of any: they are counted

// A step that is reversible in both arguments: a change of either is never lost.
template <typename V>
DASO_HOST_DEVICE std::uint64_t folded(std::uint64_t running, std::uint64_t next) {
  const std::uint64_t product = (running ^ next) * 0x9e3779b97f4a7c15U;
  return product ^ (product >> 32U);
}

// Reversible as well, and every bit reaches every bit (the end of splitmix64: Steele, Lea and
// Flood, OOPSLA 2014): so the changes of two blocks do not cancel in the sum of both.
template <typename V>
DASO_HOST_DEVICE std::uint64_t spread(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

template <typename V>
std::uint64_t digest_of_block(const float* values, std::size_t rows, std::uint64_t place) {
  constexpr std::size_t kVectors = kDigestLanes / V::kLanes;
  typename V::Words vectors[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) vectors[i] = V::no_words();
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < kVectors; ++i) {
      const float* next = values + row * kDigestLanes + i * V::kLanes;
      vectors[i] = V::mix(vectors[i], V::load_words(next));
    }
  }
  std::uint64_t lanes[kDigestLanes / 2];
  for (std::size_t i = 0; i < kVectors; ++i) {
    V::store_words(reinterpret_cast<std::byte*>(lanes) + i * V::kLanes * 4, vectors[i]);
  }
  std::uint64_t all = place;
  for (const std::uint64_t two : lanes) all = folded<V>(all, two);
  return spread<V>(all);
}

template <typename V>
void digest_loop(const Digest& v) {
  // The last block is filled up with zeros to whole rows; the number of elements tells them apart.
  std::uint64_t sum = v.elements * kDigestOfElement;
  const std::size_t blocks = v.elements / kDigestBlock;
  for (std::size_t block = 0; block < blocks; ++block) {
    sum += digest_of_block<V>(v.values + block * kDigestBlock, kDigestBlock / kDigestLanes, block);
  }
  const std::size_t left = v.elements - blocks * kDigestBlock;
  if (left > 0) {
    float last[kDigestBlock];
    const std::size_t rows = (left + kDigestLanes - 1) / kDigestLanes;
    std::memcpy(last, v.values + blocks * kDigestBlock, left * sizeof(float));
    std::memset(last + left, 0, (rows * kDigestLanes - left) * sizeof(float));
    sum += digest_of_block<V>(last, rows, blocks);
  }
  *v.digest = sum;
}

template <typename V>
std::uint32_t largest_magnitude(const float* values, std::size_t elements) {
  typename V::Words absmax = V::no_words();
  for (std::size_t i = 0; i < elements; i += V::kLanes) {
    absmax = V::larger_magnitude(absmax, V::load(values + i));
  }
  return V::largest(absmax);
}

template <typename V>
void finite_loop(const FiniteCheck& v) {
  constexpr std::uint32_t kLargest = 0x7f7fffff;  // the bits of the largest finite number
  const std::size_t whole = v.elements / V::kLanes * V::kLanes;
  const std::size_t left = v.elements - whole;
  if (largest_magnitude<V>(v.values, whole) > kLargest ||
      largest_magnitude<typename V::One>(v.values + whole, left) > kLargest) {
    *v.overflow = 1;
  }
}

// So many sums of squares run side by side, each of every kSquareSums-th element: whole vectors, on
// every instruction set.
inline constexpr std::size_t kSquareSums = 16;

// The sums of one tensor, in registers.
template <typename V>
class RowOfSums {
 public:
  RowOfSums() {
    const double zeros[V::kDoubles] = {};
    for (std::size_t i = 0; i < kVectors; ++i) sums_[i] = V::load_doubles(zeros);
  }
  void add(const float* row) {
    for (std::size_t i = 0; i < kVectors; ++i) {
      sums_[i] = V::add_squares(sums_[i], row + i * V::kDoubles);
    }
  }
  // The sum of all, with a last row that need not be whole. Always in the same order.
  double total(const float* last, std::size_t elements) const {
    double sums[kSquareSums];
    for (std::size_t i = 0; i < kVectors; ++i) V::store_doubles(sums + i * V::kDoubles, sums_[i]);
    for (std::size_t i = 0; i < elements; ++i) {
      sums[i] = V::One::add_squares(sums[i], last + i);
    }
    for (std::size_t half = kSquareSums / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
  }

 private:
  static constexpr std::size_t kVectors = kSquareSums / V::kDoubles;
  typename V::Doubles sums_[kVectors];
};

struct TwoSums {
  double first;
  double second;
};

template <typename V>
double sum_of_squares(const float* values, std::size_t elements) {
  const std::size_t whole = elements / kSquareSums * kSquareSums;
  RowOfSums<V> row;
  for (std::size_t i = 0; i < whole; i += kSquareSums) row.add(values + i);
  return row.total(values + whole, elements - whole);
}

template <typename V>
TwoSums sums_of_squares(const float* first, const float* second, std::size_t elements) {
  const std::size_t whole = elements / kSquareSums * kSquareSums;
  RowOfSums<V> first_row;
  RowOfSums<V> second_row;
  for (std::size_t i = 0; i < whole; i += kSquareSums) {
    first_row.add(first + i);
    second_row.add(second + i);
  }
  const std::size_t left = elements - whole;
  return {first_row.total(first + whole, left), second_row.total(second + whole, left)};
}

template <typename V>
void squares_loop(const Squares& s) {
  if (s.second == nullptr) {
    *s.first_sum = sum_of_squares<V>(s.first, s.elements);
    return;
  }
  const TwoSums sums = sums_of_squares<V>(s.first, s.second, s.elements);
  *s.first_sum = sums.first;
  *s.second_sum = sums.second;
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace daso::kernels
