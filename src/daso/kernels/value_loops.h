// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "daso/kernels/kernels.h"

// Loops that read values and give a few numbers, over a vector type V of simd/: digests, sums of
// squares, and whether all are finite.
namespace daso::kernels {

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled here.

// A digest is the sum of those of its blocks, so these may be computed in any order, by any number
// of threads. A block's depends on its values and on its place.
inline constexpr std::size_t kDigestBlock = 4096;  // elements
inline constexpr std::size_t kDigestLanes = 64;    // each takes every 64th element of a block

// A step that is reversible in both arguments: a change of either is never lost.
template <typename V>
std::uint64_t folded(std::uint64_t running, std::uint64_t next) {
  const std::uint64_t product = (running ^ next) * 0x9e3779b97f4a7c15U;
  return product ^ (product >> 32U);
}

// Reversible as well, and every bit reaches every bit (the end of splitmix64: Steele, Lea and
// Flood, OOPSLA 2014): so the changes of two blocks do not cancel in the sum of both.
template <typename V>
std::uint64_t spread(std::uint64_t bits) {
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
std::uint64_t digest_loop(const Values& v) {
  std::uint64_t sum = 0;
  const std::size_t blocks = v.elements / kDigestBlock;
  for (std::size_t block = 0; block < blocks; ++block) {
    sum += digest_of_block<V>(v.values + block * kDigestBlock, kDigestBlock / kDigestLanes, block);
  }
  // The last block is filled up with zeros to whole rows.
  const std::size_t left = v.elements - blocks * kDigestBlock;
  if (left == 0) return sum;
  float last[kDigestBlock];
  const std::size_t rows = (left + kDigestLanes - 1) / kDigestLanes;
  std::memcpy(last, v.values + blocks * kDigestBlock, left * sizeof(float));
  std::memset(last + left, 0, (rows * kDigestLanes - left) * sizeof(float));
  return sum + digest_of_block<V>(last, rows, blocks);
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
bool finite_loop(const Values& v) {
  constexpr std::uint32_t kLargest = 0x7f7fffff;  // the bits of the largest finite number
  const std::size_t whole = v.elements / V::kLanes * V::kLanes;
  return largest_magnitude<V>(v.values, whole) <= kLargest &&
         largest_magnitude<typename V::One>(v.values + whole, v.elements - whole) <= kLargest;
}

// The sums of one tensor, in registers.
template <typename V>
class RowOfSums {
 public:
  explicit RowOfSums(const double* from) {
    for (std::size_t i = 0; i < kVectors; ++i) {
      sums_[i] = V::load_doubles(from + i * V::kDoubles);
    }
  }
  void add(const float* row) {
    for (std::size_t i = 0; i < kVectors; ++i) {
      sums_[i] = V::add_squares(sums_[i], row + i * V::kDoubles);
    }
  }
  void store(double* to) const {
    for (std::size_t i = 0; i < kVectors; ++i) V::store_doubles(to + i * V::kDoubles, sums_[i]);
  }

 private:
  static constexpr std::size_t kVectors = kSquareSums / V::kDoubles;
  typename V::Doubles sums_[kVectors];
};

// What does not fill a row.
template <typename V>
void add_tail(const float* values, std::size_t elements, double* sums) {
  for (std::size_t i = 0; i < elements; ++i) {
    sums[i] = V::One::add_squares(sums[i], values + i);
  }
}

template <typename V>
void squares_loop(const Squares& s) {
  const std::size_t whole = s.elements / kSquareSums * kSquareSums;
  RowOfSums<V> first(s.first_sums);
  if (s.second == nullptr) {
    for (std::size_t i = 0; i < whole; i += kSquareSums) first.add(s.first + i);
  } else {
    RowOfSums<V> second(s.second_sums);
    for (std::size_t i = 0; i < whole; i += kSquareSums) {
      first.add(s.first + i);
      second.add(s.second + i);
    }
    second.store(s.second_sums);
    add_tail<V>(s.second + whole, s.elements - whole, s.second_sums);
  }
  first.store(s.first_sums);
  add_tail<V>(s.first + whole, s.elements - whole, s.first_sums);
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace daso::kernels
