// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Between rows_kernel.cpp and the versions of its loop per instruction set; the rules of
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

// Each does as many whole vectors as there are and says how many values that were.
std::size_t rows_scalar(const RowSum& sum);
std::size_t rows_avx2(const RowSum& sum);
std::size_t rows_avx512(const RowSum& sum);

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

}  // namespace daso::kernels
