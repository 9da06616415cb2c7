// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daso/kernels/norm.h"

// Between norm.cpp, which checks, and the versions of its loop per instruction set; the rules of
// base/simd/scalar.h hold.
namespace daso::kernels {

struct Squares {
  const float* first;
  const float* second;  // null: the first counts alone
  std::size_t elements;
  double* first_sums;  // SquareSums::kSums of each
  double* second_sums;
};

// Each does as many whole rows of SquareSums::kSums elements as there are and says how many
// elements that were.
std::size_t squares_scalar(const Squares& squares);
std::size_t squares_avx2(const Squares& squares);
std::size_t squares_avx512(const Squares& squares);

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
  static constexpr std::size_t kVectors = SquareSums::kSums / V::kDoubles;

  // NOLINTNEXTLINE(modernize-avoid-c-arrays): std::array's functions may not be compiled here.
  typename V::Doubles sums_[kVectors];
};

template <typename V>
std::size_t squares_loop(const Squares& s) {
  const std::size_t whole = s.elements / SquareSums::kSums * SquareSums::kSums;
  RowOfSums<V> first(s.first_sums);
  if (s.second == nullptr) {
    for (std::size_t i = 0; i < whole; i += SquareSums::kSums) first.add(s.first + i);
  } else {
    RowOfSums<V> second(s.second_sums);
    for (std::size_t i = 0; i < whole; i += SquareSums::kSums) {
      first.add(s.first + i);
      second.add(s.second + i);
    }
    second.store(s.second_sums);
  }
  first.store(s.first_sums);
  return whole;
}

}  // namespace daso::kernels
