// SPDX-License-Identifier: Apache-2.0
// Digests, sums of squares and what follows from them, means, and whether all values are finite.
#include "daso/cuda/sums.cuh"
#include "daso/kernels/exchange_steps.h"
#include "daso/kernels/value_loops.h"

namespace daso::cuda {
namespace {

constexpr std::uint32_t kLargest = 0x7f7fffff;  // the bits of the largest finite number

// Columns 2 l and 2 l + 1 of a digest's block are lane l's: it has the two together that are folded
// together.
template <bool kPairs>
__device__ uint2 pair_at(const float* values, std::size_t i, std::size_t elements) {
  if constexpr (kPairs) {
    return *reinterpret_cast<const uint2*>(values + i);
  } else {
    return {i < elements ? __float_as_uint(values[i]) : 0,
            i + 1 < elements ? __float_as_uint(values[i + 1]) : 0};
  }
}

template <bool kPairs>
__device__ std::uint64_t columns_of(const float* values, std::size_t elements, unsigned lane) {
  constexpr unsigned kAhead = 16;  // rows that are on their way at a time
  const std::size_t rows = (elements + kernels::kDigestLanes - 1) / kernels::kDigestLanes;
  uint2 running = {0, 0};
  for (std::size_t row = 0; row < rows; row += kAhead) {
    uint2 next[kAhead];
    for (unsigned i = 0; i < kAhead; ++i) {
      if (row + i < rows) {
        next[i] = pair_at<kPairs>(values, (row + i) * kernels::kDigestLanes + 2 * lane, elements);
      }
    }
    for (unsigned i = 0; i < kAhead; ++i) {
      if (row + i < rows) {
        running.x = One::mix(running.x, next[i].x);
        running.y = One::mix(running.y, next[i].y);
      }
    }
  }
  return running.x | std::uint64_t{running.y} << 32;
}

// A warp does a block. Their sum is the same in any order.
__global__ void __launch_bounds__(kThreads) digest_blocks(const kernels::Digest d) {
  const unsigned lane = threadIdx.x % 32;
  const bool pairs = reinterpret_cast<std::uintptr_t>(d.values) % sizeof(uint2) == 0;
  const std::size_t blocks = (d.elements + kernels::kDigestBlock - 1) / kernels::kDigestBlock;
  const std::size_t first = std::size_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  for (std::size_t block = first; block < blocks; block += std::size_t{gridDim.x} * kWarps) {
    const float* values = d.values + block * kernels::kDigestBlock;
    const std::size_t left = d.elements - block * kernels::kDigestBlock;
    const std::uint64_t columns =
        pairs && left >= kernels::kDigestBlock
            ? columns_of<true>(values, kernels::kDigestBlock, lane)
            : columns_of<false>(values, min(left, kernels::kDigestBlock), lane);
    std::uint64_t all = block;
    for (unsigned i = 0; i < 32; ++i) {
      all = kernels::folded<One>(all, __shfl_sync(kAllLanes, columns, i));
    }
    all = kernels::spread<One>(all);
    if (block == 0) all += d.elements * kernels::kDigestOfElement;
    if (lane == 0) atomicAdd(reinterpret_cast<unsigned long long*>(d.digest), all);
  }
}

__global__ void __launch_bounds__(kThreads)
    check_values(const kernels::FiniteCheck c, const std::size_t head) {
  std::uint32_t absmax = 0;
  for_elements(c.elements, head, [&](auto vector, std::size_t i) {
    using V = decltype(vector);
    absmax = V::larger_magnitude(absmax, V::load(c.values + i));
  });
  if (absmax > kLargest) *c.overflow = 1;
}

struct MeanTerms {
  kernels::MeanTerm all[kMostTerms];
};

__global__ void __launch_bounds__(kThreads)
    mean_of_terms(const kernels::Mean m, const __grid_constant__ MeanTerms terms,
                  const std::size_t head) {
  std::uint32_t absmax = 0;
  for_elements(m.elements, head, [&](auto vector, std::size_t i) {
    using V = decltype(vector);
    typename V::Floats sum = V::all(0);
    for (std::size_t n = 0; n < m.number_of_terms; ++n) {
      const kernels::MeanTerm& term = terms.all[n];
      sum = kernels::with_term<V>(sum, n == 0, V::all(term.weight), V::load(term.values + i));
    }
    if (m.divisor != 1) sum = V::divide(sum, V::all(m.divisor));
    if (m.residual != nullptr) {
      sum = V::add(sum, V::load(m.residual + i));
      V::store(m.residual + i, V::all(0));
    }
    V::store(m.mean + i, sum);
    absmax = V::larger_magnitude(absmax, sum);
  });
  if (m.overflow != nullptr && absmax > kLargest) *m.overflow = 1;
}

// One part of the sums for each kChunkElements, wherever the array begins.
__global__ void __launch_bounds__(kThreads)
    square_parts(const kernels::Squares s, double* const parts, const std::size_t number,
                 const bool aligned) {
  for (std::size_t part = blockIdx.x; part < number; part += gridDim.x) {
    const std::size_t begin = part * kernels::kChunkElements;
    const auto elements = static_cast<unsigned>(min(s.elements - begin, kernels::kChunkElements));
    TwoDoubles own;
    for_chunk(begin, elements, aligned, [&](auto vector, std::size_t i) {
      using V = decltype(vector);
      own.first = add_squares(own.first, V::load(s.first + i));
      if (s.second != nullptr) own.second = add_squares(own.second, V::load(s.second + i));
    });
    const TwoDoubles total = group_sums(own);
    if (threadIdx.x == 0) {
      parts[part] = total.first;
      parts[number + part] = total.second;
    }
  }
}

__global__ void __launch_bounds__(kSumThreads)
    norm_of_parts(const double* const parts, const std::size_t number, double* const norm) {
  const double total = sum_of_parts(parts, number);
  if (threadIdx.x == 0) *norm = sqrt(total);
}

__global__ void __launch_bounds__(kThreads)
    shorten(const kernels::Clipping c, const std::size_t head) {
  const float factor = kernels::clip_factor<One>(*c.norm, c.largest);
  if (factor == 1) return;
  for_elements(c.elements, head, [&](auto vector, std::size_t i) {
    using V = decltype(vector);
    V::store(c.values + i, V::multiply(V::load(c.values + i), V::all(factor)));
  });
}

std::size_t square_parts_of_one(std::size_t elements) {
  return (elements + kernels::kChunkElements - 1) / kernels::kChunkElements;
}

void launch_square_parts(const kernels::Squares& s, double* parts, const Launch& launch) {
  const std::size_t number = square_parts_of_one(s.elements);
  const bool aligned = elements_before_fours(s.elements, s.first, s.second) == 0;
  square_parts<<<groups_for(number, 1, launch), kThreads, 0, launch.stream>>>(s, parts, number,
                                                                              aligned);
}

unsigned groups_for_elements(std::size_t elements, const Launch& launch) {
  return groups_for(elements, 4 * kThreads, launch);
}

}  // namespace

void digest(const kernels::Digest& digest, const Launch& launch) {
  cudaMemsetAsync(digest.digest, 0, sizeof *digest.digest, launch.stream);
  const std::size_t blocks = (digest.elements + kernels::kDigestBlock - 1) / kernels::kDigestBlock;
  digest_blocks<<<groups_for(blocks, kWarps, launch), kThreads, 0, launch.stream>>>(digest);
}

void finite_check(const kernels::FiniteCheck& check, const Launch& launch) {
  check_values<<<groups_for_elements(check.elements, launch), kThreads, 0, launch.stream>>>(
      check, elements_before_fours(check.elements, check.values));
}

void mean(const kernels::Mean& mean, const Launch& launch) {
  MeanTerms terms{};
  std::size_t head = elements_before_fours(mean.elements, mean.mean, mean.residual);
  for (std::size_t n = 0; n < mean.number_of_terms; ++n) {
    terms.all[n] = mean.terms[n];
    if (elements_before_fours(mean.elements, mean.mean, mean.terms[n].values) == mean.elements) {
      head = mean.elements;
    }
  }
  mean_of_terms<<<groups_for_elements(mean.elements, launch), kThreads, 0, launch.stream>>>(
      mean, terms, head);
}

std::size_t parts_of_squares(std::size_t elements) { return 2 * square_parts_of_one(elements); }

void squares(const kernels::Squares& squares, double* parts, const Launch& launch) {
  const std::size_t number = square_parts_of_one(squares.elements);
  launch_square_parts(squares, parts, launch);
  add_parts<<<1, kSumThreads, 0, launch.stream>>>(parts, number, squares.first_sum);
  if (squares.second == nullptr) return;
  add_parts<<<1, kSumThreads, 0, launch.stream>>>(parts + number, number, squares.second_sum);
}

void clip(const kernels::Clipping& clipping, double* parts, const Launch& launch) {
  const std::size_t number = square_parts_of_one(clipping.elements);
  launch_square_parts({.first = clipping.values,
                       .second = nullptr,
                       .elements = clipping.elements,
                       .first_sum = nullptr,
                       .second_sum = nullptr},
                      parts, launch);
  norm_of_parts<<<1, kSumThreads, 0, launch.stream>>>(parts, number, clipping.norm);
  shorten<<<groups_for_elements(clipping.elements, launch), kThreads, 0, launch.stream>>>(
      clipping, elements_before_fours(clipping.elements, clipping.values));
}

}  // namespace daso::cuda
