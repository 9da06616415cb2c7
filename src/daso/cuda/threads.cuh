// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "daso/cuda/launch.h"
#include "daso/kernels/simd/scalar.h"

// How the threads of a launch share work, and how they add up.
namespace daso::cuda {

inline constexpr unsigned kThreads = 256;  // of a group, which CUDA calls a block
inline constexpr unsigned kWarps = kThreads / 32;
inline constexpr unsigned kAllLanes = 0xffffffff;

using One = simd::OneElement<struct CudaThread>;

// Four elements at a time, in one access of 16 bytes: a vector type as those of kernels/simd.
struct Four {
  static constexpr std::size_t kLanes = 4;
  using Floats = float4;

  static __device__ Floats all(float a) { return {a, a, a, a}; }
  static __device__ Floats load(const float* from) {
    return *reinterpret_cast<const float4*>(from);
  }
  // To global memory; said so that the compiler does not take it apart.
  static __device__ void store(float* to, Floats a) { __stwb(reinterpret_cast<float4*>(to), a); }
  static __device__ Floats add(Floats a, Floats b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
  }
  static __device__ Floats subtract(Floats a, Floats b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w};
  }
  static __device__ Floats multiply(Floats a, Floats b) {
    return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
  }
  static __device__ Floats divide(Floats a, Floats b) {
    return {a.x / b.x, a.y / b.y, a.z / b.z, a.w / b.w};
  }
  static __device__ Floats square_root(Floats a) {
    return {One::square_root(a.x), One::square_root(a.y), One::square_root(a.z),
            One::square_root(a.w)};
  }
  static __device__ std::uint32_t larger_magnitude(std::uint32_t running, Floats a) {
    running = One::larger_magnitude(One::larger_magnitude(running, a.x), a.y);
    return One::larger_magnitude(One::larger_magnitude(running, a.z), a.w);
  }
};

inline __device__ double add_squares(double sum, float a) {
  const double wide = a;
  return sum + wide * wide;
}
inline __device__ double add_squares(double sum, float4 a) {
  return add_squares(add_squares(add_squares(add_squares(sum, a.x), a.y), a.z), a.w);
}

// Groups for so much work, each doing `by_group` of it at a time: enough to fill the GPU several
// times over, so that all its processors end together, and no more.
inline unsigned groups_for(std::size_t work, std::size_t by_group, const Launch& launch) {
  constexpr std::size_t kGroupsOfProcessor = 64;
  const std::size_t needed = (work + by_group - 1) / by_group;
  const std::size_t most = kGroupsOfProcessor * launch.processors;
  return static_cast<unsigned>(needed == 0 ? 1 : needed < most ? needed : most);
}

// How many elements to do one by one until the rest of all arrays begins at multiples of 16 bytes;
// all of them where that is nowhere.
template <typename... Pointers>
std::size_t elements_before_fours(std::size_t elements, const float* first, Pointers... others) {
  const auto place = [](const float* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16;
  };
  if (((others != nullptr && place(others) != place(first)) || ...)) return elements;
  const std::size_t head = (16 - place(first)) % 16 / sizeof(float);
  return head < elements ? head : elements;
}

// Calls act(Four(), i) and act(One(), i) until all elements are done, by all threads of the launch.
template <typename Act>
__device__ void for_elements(std::size_t elements, std::size_t head, const Act& act) {
  const std::size_t thread = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::size_t threads = std::size_t{gridDim.x} * kThreads;
  const std::size_t fours = (elements - head) / 4;
  for (std::size_t i = thread; i < fours; i += threads) act(Four(), head + 4 * i);
  // Those before the fours, then those behind them.
  for (std::size_t i = thread; i < elements - 4 * fours; i += threads) {
    act(One(), i < head ? i : i + 4 * fours);
  }
}

// The same for elements `begin` ... of arrays whose beginnings are aligned, or not, by the threads
// of one group.
template <typename Act>
__device__ void for_chunk(std::size_t begin, unsigned elements, bool aligned, const Act& act) {
  const unsigned before = static_cast<unsigned>((4 - begin % 4) % 4);
  const unsigned head = aligned && before < elements ? before : elements;
  const unsigned fours = (elements - head) / 4;
  for (unsigned i = threadIdx.x; i < fours; i += kThreads) act(Four(), begin + head + 4 * i);
  for (unsigned i = threadIdx.x; i < elements - 4 * fours; i += kThreads) {
    act(One(), begin + (i < head ? i : i + 4 * fours));
  }
}

// Two sums over the threads of a group, always in the same order; thread 0 has them.
struct TwoDoubles {
  double first = 0;
  double second = 0;
};

template <unsigned kGroup = kThreads>
__device__ TwoDoubles group_sums(TwoDoubles own) {
  __shared__ TwoDoubles of_warps[kGroup / 32];
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    own.first += __shfl_down_sync(kAllLanes, own.first, distance);
    own.second += __shfl_down_sync(kAllLanes, own.second, distance);
  }
  __syncthreads();  // whoever reads the sums before
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < kGroup / 32; ++warp) {
      own.first += of_warps[warp].first;
      own.second += of_warps[warp].second;
    }
  }
  return own;
}

}  // namespace daso::cuda
