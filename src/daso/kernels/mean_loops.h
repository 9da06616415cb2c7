// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "daso/kernels/exchange_steps.h"
#include "daso/kernels/kernels.h"
#include "daso/kernels/wire_formats.h"

// Sums in a fixed order, over a vector type V of simd/: one term after the other into a block that
// stays in the cache nearest to the core.
namespace daso::kernels {

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled here.

// sum = sum + weight * decoded of one block, or without the sum before it for the first term. The
// product is rounded by itself.
template <typename V, typename F>
void add_term(const std::byte* encoded, float weight, bool first, float* sum) {
  const typename F::Reader reader(encoded);
  const typename V::Floats weights = V::all(weight);
  for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
    const typename V::Floats before = first ? weights : V::load(sum + i);
    V::store(sum + i, with_term<V>(before, first, weights, reader.at(i)));
  }
}

// sum = sum + residual of one block; the largest magnitude of it, as bits.
template <typename V>
std::uint32_t add_residual(const float* residual, float* sum) {
  typename V::Words absmax = V::no_words();
  for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
    const typename V::Floats with_residual = V::add(V::load(sum + i), V::load(residual + i));
    absmax = V::larger_magnitude(absmax, with_residual);
    V::store(sum + i, with_residual);
  }
  return V::largest(absmax);
}

// sum = sum / divisor of one block; the largest magnitude of it, as bits.
template <typename V>
std::uint32_t divide_sum(float divisor, float* sum) {
  typename V::Words absmax = V::no_words();
  const typename V::Floats divisors = V::all(divisor);
  for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
    typename V::Floats mean = V::load(sum + i);
    if (divisor != 1) {
      mean = V::divide(mean, divisors);
      V::store(sum + i, mean);
    }
    absmax = V::larger_magnitude(absmax, mean);
  }
  return V::largest(absmax);
}

// A block of floats in memory, or a copy of it that zeros fill up where the array ends before it.
template <typename V>
const float* whole_block(const float* from, std::size_t elements, float* copy) {
  if (elements == kBlockElements) return from;
  std::memset(copy, 0, kBlockElements * sizeof(float));
  std::memcpy(copy, from, elements * sizeof(float));
  return copy;
}

template <typename V>
void mean_loop(const Mean& m) {
  alignas(64) float sum[kBlockElements];
  alignas(64) float copy[kBlockElements];
  std::uint32_t absmax = 0;
  for (std::size_t begin = 0; begin < m.elements; begin += kBlockElements) {
    const std::size_t left = m.elements - begin;
    const std::size_t elements = left < kBlockElements ? left : kBlockElements;
    for (std::size_t n = 0; n < m.number_of_terms; ++n) {
      const float* term = whole_block<V>(m.terms[n].values + begin, elements, copy);
      add_term<V, Fp32Format<V>>(reinterpret_cast<const std::byte*>(term), m.terms[n].weight,
                                 n == 0, sum);
    }
    std::uint32_t largest = divide_sum<V>(m.divisor, sum);
    if (m.residual != nullptr) {
      largest = add_residual<V>(whole_block<V>(m.residual + begin, elements, copy), sum);
      std::memset(m.residual + begin, 0, elements * sizeof(float));
    }
    std::memcpy(m.mean + begin, sum, elements * sizeof(float));
    absmax = largest > absmax ? largest : absmax;
  }
  if (m.overflow != nullptr && absmax > Fp32Format<V>::kLargest) *m.overflow = 1;
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace daso::kernels
