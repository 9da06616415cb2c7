// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/cuda/threads.cuh"

// The end of a sum whose parts lie in memory: one group adds them, always in the same order.
namespace daso::cuda {

inline constexpr unsigned kSumThreads = 1024;

inline __device__ double sum_of_parts(const double* parts, std::size_t number) {
  TwoDoubles own;
  for (std::size_t i = threadIdx.x; i < number; i += kSumThreads) own.first += parts[i];
  return group_sums<kSumThreads>(own).first;
}

static __global__ void __launch_bounds__(kSumThreads)
    add_parts(const double* const parts, const std::size_t number, double* const sum) {
  const double total = sum_of_parts(parts, number);
  if (threadIdx.x == 0) *sum = total;
}

}  // namespace daso::cuda
