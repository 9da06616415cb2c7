// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "daso/cuda/reorder.h"

namespace daso::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float to_float(float value) { return value; }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ void from_float(float value, float& out) { out = value; }
__device__ void from_float(float value, __nv_bfloat16& out) { out = __float2bfloat16_rn(value); }
__device__ void from_float(float value, __half& out) { out = __float2half_rn(value); }

// By value in the launch, so that a graph holds it.
struct Weights {
  Reordered all[kMostReordered];
  int number;
};

// A block has one output of one weight: read in the one order, written in the other.
template <typename From, typename To, bool kToLast>
__global__ void __launch_bounds__(kThreads) reorder_outputs(const Weights weights) {
  extern __shared__ float staged[];
  std::uint32_t output = blockIdx.x;
  int number = 0;
  while (output >= weights.all[number].outputs) output -= weights.all[number++].outputs;
  const Reordered& weight = weights.all[number];
  const std::uint32_t elements = weight.channels * weight.pixels;
  const From* from = static_cast<const From*>(weight.from) + std::size_t{output} * elements;
  To* to = static_cast<To*>(weight.to) + std::size_t{output} * elements;
  for (std::uint32_t i = threadIdx.x; i < elements; i += kThreads) staged[i] = to_float(from[i]);
  __syncthreads();
  // Of the order that is written, how many lie side by side, and how far apart they were.
  const std::uint32_t side_by_side = kToLast ? weight.channels : weight.pixels;
  const std::uint32_t apart = kToLast ? weight.pixels : weight.channels;
  for (std::uint32_t i = threadIdx.x; i < elements; i += kThreads) {
    from_float(staged[i % side_by_side * apart + i / side_by_side], to[i]);
  }
}

template <typename From, typename To>
void launch(const Weights& weights, std::uint32_t outputs, std::uint32_t largest, bool to_last,
            cudaStream_t stream) {
  const std::size_t bytes = std::size_t{largest} * sizeof(float);
  to_last ? reorder_outputs<From, To, true><<<outputs, kThreads, bytes, stream>>>(weights)
          : reorder_outputs<From, To, false><<<outputs, kThreads, bytes, stream>>>(weights);
}

}  // namespace

void reorder(const Reordered* weights, int number, Number from, Number to, bool to_last,
             cudaStream_t stream) {
  for (int begin = 0; begin < number; begin += kMostReordered) {
    Weights some{};
    std::uint32_t outputs = 0;
    std::uint32_t largest = 0;
    for (int i = begin; i < number && i < begin + kMostReordered; ++i) {
      const std::uint32_t elements = weights[i].channels * weights[i].pixels;
      some.all[some.number++] = weights[i];
      outputs += weights[i].outputs;
      largest = elements > largest ? elements : largest;
    }
    if (outputs == 0) continue;
    if (from == Number::kFloat) {
      to == Number::kBf16 ? launch<float, __nv_bfloat16>(some, outputs, largest, to_last, stream)
                          : launch<float, __half>(some, outputs, largest, to_last, stream);
    } else if (from == Number::kBf16) {
      launch<__nv_bfloat16, float>(some, outputs, largest, to_last, stream);
    } else {
      launch<__half, float>(some, outputs, largest, to_last, stream);
    }
  }
}

}  // namespace daso::cuda
