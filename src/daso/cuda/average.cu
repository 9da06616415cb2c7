// SPDX-License-Identifier: Apache-2.0
// The owner's part of an exchange, and how far a node is from the mean. A warp does a block.
#include "daso/cuda/sums.cuh"
#include "daso/cuda/wire_block.cuh"
#include "daso/kernels/exchange_steps.h"

namespace daso::cuda {
namespace {

struct EncodedTerms {
  kernels::EncodedTerm all[kMostTerms];
};

template <typename F>
__global__ void __launch_bounds__(kThreads)
    average_blocks(const kernels::Averaging a, const __grid_constant__ EncodedTerms terms) {
  const WarpPlace warp = warp_place();
  for (std::size_t block = warp.first; block < a.blocks; block += warp.stride) {
    float* const residual_block = a.residual + block * kBlockElements;
    float residual[kLaneElements];
    load_lane(residual_block, warp.lane, residual);
    float sum[kLaneElements] = {};
    for (std::size_t n = 0; n < a.number_of_terms; ++n) {
      const kernels::EncodedTerm& term = terms.all[n];
      float values[kLaneElements];
      kernels::decode_lane<F>(load_codes<F>(term.encoded + block * F::kBlockBytes, warp), values);
      for (unsigned i = 0; i < kLaneElements; ++i) {
        sum[i] = kernels::with_term<One>(sum[i], n == 0, term.weight, values[i]);
      }
    }
    for (unsigned i = 0; i < kLaneElements; ++i) sum[i] = One::add(sum[i], residual[i]);
    const std::uint32_t absmax = absmax_of_warp(sum);
    if (absmax > F::kLargest) {
      if (warp.lane == 0) *a.overflow = 1;
      continue;
    }
    const std::uint64_t random = kernels::bits_of_block<One>(a.draws, block);
    const LaneCodes<F> codes = kernels::encode_lane<F>(sum, absmax, random, warp.lane);
    store_codes<F>(a.back + block * F::kBlockBytes, warp, codes);
    float back[kLaneElements];
    kernels::decode_lane<F>(codes, back);
    for (unsigned i = 0; i < kLaneElements; ++i) residual[i] = One::subtract(sum[i], back[i]);
    store_lane(residual_block, warp.lane, residual);
  }
}

// Blocks of a group, for one part of the sum.
constexpr std::size_t kDistanceBlocks = 4 * kWarps;

// In a block the sums are those of the CPU, 16 in fp32 side by side, with the same bits.
template <typename F>
__device__ double distance_of_block(const kernels::Distance& d, std::size_t block,
                                    const WarpPlace& warp, float* squares) {
  constexpr unsigned kSums = 16;
  float own[kLaneElements];
  float back[kLaneElements];
  kernels::decode_lane<F>(load_codes<F>(d.own + block * F::kBlockBytes, warp), own);
  kernels::decode_lane<F>(load_codes<F>(d.back + block * F::kBlockBytes, warp), back);
  for (unsigned i = 0; i < kLaneElements; ++i) {
    const float difference = One::subtract(back[i], own[i]);
    back[i] = One::multiply(difference, difference);
  }
  for (unsigned i = 0; i < kLaneElements; ++i)
    squares[part_begin(warp.lane, i / 4) + i % 4] = back[i];
  __syncwarp();
  float sum = 0;
  for (unsigned i = warp.lane % kSums; i < kBlockElements; i += kSums) sum += squares[i];
  __syncwarp();
  double of_block = 0;
  for (unsigned i = 0; i < kSums; ++i) of_block += double{__shfl_sync(kAllLanes, sum, i)};
  return of_block;
}

template <typename F>
__global__ void __launch_bounds__(kThreads)
    distance_parts(const kernels::Distance d, double* const parts, const std::size_t number) {
  __shared__ __align__(16) float squares[kWarps][kBlockElements];
  const WarpPlace warp = warp_place();
  const unsigned in_group = threadIdx.x / 32;
  for (std::size_t part = blockIdx.x; part < number; part += gridDim.x) {
    double sum = 0;
    for (std::size_t i = in_group; i < kDistanceBlocks; i += kWarps) {
      const std::size_t block = part * kDistanceBlocks + i;
      if (block < d.blocks) sum += distance_of_block<F>(d, block, warp, squares[in_group]);
    }
    // All lanes of a warp have its sum, which counts once.
    const TwoDoubles total = group_sums({warp.lane == 0 ? sum : 0, 0});
    if (threadIdx.x == 0) parts[part] = total.first;
  }
}

}  // namespace

void average(Wire wire, const kernels::Averaging& averaging, const Launch& launch) {
  EncodedTerms terms{};
  for (std::size_t n = 0; n < averaging.number_of_terms; ++n) terms.all[n] = averaging.terms[n];
  with_format(wire, [&](auto kind) {
    average_blocks<typename decltype(kind)::Format>
        <<<groups_for(averaging.blocks, kWarps, launch), kThreads, 0, launch.stream>>>(averaging,
                                                                                       terms);
  });
}

std::size_t parts_of_distance(std::size_t blocks) {
  return (blocks + kDistanceBlocks - 1) / kDistanceBlocks;
}

void squared_distance(Wire wire, const kernels::Distance& distance, double* parts,
                      const Launch& launch) {
  const std::size_t number = parts_of_distance(distance.blocks);
  with_format(wire, [&](auto kind) {
    distance_parts<typename decltype(kind)::Format>
        <<<groups_for(number, 1, launch), kThreads, 0, launch.stream>>>(distance, parts, number);
  });
  add_parts<<<1, kSumThreads, 0, launch.stream>>>(parts, number, distance.sum);
}

}  // namespace daso::cuda
