// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "daso/cuda/cross_entropy.h"

namespace daso::cuda {
namespace {

constexpr int kThreads = 256;  // a block has one row
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kWide = 8;  // scores in one load of 16 bytes

__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ void to_half(float value, __nv_bfloat16& out) { out = __float2bfloat16_rn(value); }
__device__ void to_half(float value, __half& out) { out = __float2half_rn(value); }

template <typename Half>
struct alignas(16) Wide {
  Half values[kWide];
};

// Rows begin anywhere. Where the part of one begins that can be loaded 16 bytes at a time:
template <typename Half>
__device__ std::int64_t unaligned_head(const Half* row, std::int64_t classes) {
  const auto past = reinterpret_cast<std::uintptr_t>(row) / sizeof(Half) % kWide;
  const std::int64_t head = past == 0 ? 0 : static_cast<std::int64_t>(kWide - past);
  return head < classes ? head : classes;
}

// A sum of exponentials relative to the largest exponent, exact in range whatever the scores.
struct LogSum {
  float largest = -INFINITY;
  float sum = 0;

  __device__ void add(float value) {
    if (value > largest) {
      sum = sum * expf(largest - value) + 1;
      largest = value;
    } else if (value != -INFINITY) {  // nothing, also where there has been nothing else so far
      sum += expf(value - largest);
    }
  }
  template <typename Half>
  __device__ void add(const Wide<Half>& wide) {
    float top = to_float(wide.values[0]);
#pragma unroll
    for (int i = 1; i < kWide; ++i) top = fmaxf(top, to_float(wide.values[i]));
    if (top > largest) {
      sum *= expf(largest - top);
      largest = top;
    }
    float part = 0;
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const float value = to_float(wide.values[i]);
      part += value == -INFINITY ? 0 : expf(value - largest);
    }
    sum += part;
  }
  __device__ void add(const LogSum& other) {
    const float top = fmaxf(largest, other.largest);
    if (top == -INFINITY) {
      sum += other.sum;  // nothing, or no number
      return;
    }
    sum = sum * expf(largest - top) + other.sum * expf(other.largest - top);
    largest = top;
  }
};

__device__ LogSum over_warp(LogSum own) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const LogSum other{__shfl_xor_sync(0xffffffffU, own.largest, distance),
                       __shfl_xor_sync(0xffffffffU, own.sum, distance)};
    own.add(other);
  }
  return own;
}

// In a fixed order: the same bits each time.
__device__ float log_sum_over_block(LogSum own) {
  __shared__ LogSum warps[kWarps];
  own = over_warp(own);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  LogSum all;
  for (int i = 0; i < kWarps; ++i) all.add(warps[i]);
  return all.largest + logf(all.sum);
}

template <typename Half>
__global__ void __launch_bounds__(kThreads)
    losses_kernel(const Half* scores, const std::int64_t* labels, std::int64_t classes,
                  float* log_sums, float* losses) {
  const std::int64_t number = blockIdx.x;
  const Half* row = scores + number * classes;
  const std::int64_t head = unaligned_head(row, classes);
  const std::int64_t wide = (classes - head) / kWide;
  LogSum own;
  for (std::int64_t i = threadIdx.x; i < head; i += kThreads) own.add(to_float(row[i]));
  const auto* middle = reinterpret_cast<const Wide<Half>*>(row + head);
  for (std::int64_t i = threadIdx.x; i < wide; i += kThreads) own.add(middle[i]);
  for (std::int64_t i = head + wide * kWide + threadIdx.x; i < classes; i += kThreads) {
    own.add(to_float(row[i]));
  }
  const float log_sum = log_sum_over_block(own);
  if (threadIdx.x != 0) return;
  const std::int64_t label = labels[number];
  log_sums[number] = log_sum;
  losses[number] = label >= 0 && label < classes ? log_sum - to_float(row[label]) : NAN;
}

template <typename Half>
__global__ void __launch_bounds__(kThreads)
    gradients_kernel(const Half* scores, const std::int64_t* labels, std::int64_t classes,
                     const float* log_sums, const float* factor, Half* gradients) {
  const std::int64_t number = blockIdx.x;
  const Half* row = scores + number * classes;
  Half* out = gradients + number * classes;
  const std::int64_t label = labels[number];
  const float log_sum = log_sums[number];
  const float scale = *factor;
  const auto gradient = [&](std::int64_t at, Half score, Half& result) {
    const float share = expf(to_float(score) - log_sum);
    to_half((at == label ? share - 1 : share) * scale, result);
  };
  // Scores may be a part of a tensor and begin elsewhere within 16 bytes than gradients: then they
  // are taken one by one.
  const auto apart = reinterpret_cast<std::uintptr_t>(row) ^ reinterpret_cast<std::uintptr_t>(out);
  const std::int64_t head =
      apart % sizeof(Wide<Half>) == 0 ? unaligned_head(row, classes) : classes;
  const std::int64_t wide = (classes - head) / kWide;
  for (std::int64_t i = threadIdx.x; i < head; i += kThreads) gradient(i, row[i], out[i]);
  const auto* middle = reinterpret_cast<const Wide<Half>*>(row + head);
  auto* middle_out = reinterpret_cast<Wide<Half>*>(out + head);
  for (std::int64_t i = threadIdx.x; i < wide; i += kThreads) {
    const Wide<Half> in = middle[i];
    Wide<Half> result;
#pragma unroll
    for (int k = 0; k < kWide; ++k) gradient(head + i * kWide + k, in.values[k], result.values[k]);
    middle_out[i] = result;
  }
  for (std::int64_t i = head + wide * kWide + threadIdx.x; i < classes; i += kThreads) {
    gradient(i, row[i], out[i]);
  }
}

template <typename Half>
void launch_losses(const ScoreRows& rows, float* log_sums, float* losses, cudaStream_t stream) {
  losses_kernel<<<static_cast<unsigned>(rows.rows), kThreads, 0, stream>>>(
      static_cast<const Half*>(rows.scores), rows.labels, rows.classes, log_sums, losses);
}

template <typename Half>
void launch_gradients(const ScoreRows& rows, const float* log_sums, const float* factor,
                      void* gradients, cudaStream_t stream) {
  gradients_kernel<<<static_cast<unsigned>(rows.rows), kThreads, 0, stream>>>(
      static_cast<const Half*>(rows.scores), rows.labels, rows.classes, log_sums, factor,
      static_cast<Half*>(gradients));
}

}  // namespace

void row_losses(const ScoreRows& rows, float* log_sums, float* losses, cudaStream_t stream) {
  if (rows.rows == 0) return;
  rows.bf16 ? launch_losses<__nv_bfloat16>(rows, log_sums, losses, stream)
            : launch_losses<__half>(rows, log_sums, losses, stream);
}

void row_gradients(const ScoreRows& rows, const float* log_sums, const float* factor,
                   void* gradients, cudaStream_t stream) {
  if (rows.rows == 0) return;
  rows.bf16 ? launch_gradients<__nv_bfloat16>(rows, log_sums, factor, gradients, stream)
            : launch_gradients<__half>(rows, log_sums, factor, gradients, stream);
}

}  // namespace daso::cuda
