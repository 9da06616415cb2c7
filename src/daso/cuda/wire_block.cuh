// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "daso/cuda/threads.cuh"
#include "daso/kernels/lane_formats.h"

// A warp and one encoded block: between memory and what the lanes hold of it (lane_formats.h).
namespace daso::cuda {

using kernels::kLaneElements;
using kernels::kLaneParts;
using kernels::LaneCodes;
using kernels::part_begin;

template <typename F>
struct Kind {
  using Format = F;
};

// Calls act(Kind<F>()) with the format of a wire.
template <typename Act, typename... F>
void with_format_of(Wire wire, const Act& act, kernels::FormatList<F...> /*formats*/) {
  std::size_t number = 0;
  ((static_cast<std::size_t>(wire) == number++ ? act(Kind<F>()) : void()), ...);
}
template <typename Act>
void with_format(Wire wire, const Act& act) {
  with_format_of(wire, act, kernels::Formats<One>());
}

// Codes of 3, 5, 6 or 7 bits fill whole words of memory only all together: they pass through memory
// that the group shares.
inline constexpr unsigned kStageWords = 56;

struct WarpPlace {
  unsigned lane;
  std::size_t first;   // block
  std::size_t stride;  // blocks
  std::uint32_t* stage;
};

// By all warps of the launch in turn.
inline __device__ WarpPlace warp_place() {
  __shared__ std::uint32_t stages[kWarps][kStageWords];
  const unsigned warp = threadIdx.x / 32;
  return {threadIdx.x % 32, std::size_t{blockIdx.x} * kWarps + warp,
          std::size_t{gridDim.x} * kWarps, stages[warp]};
}

inline __device__ void load_lane(const float* block, unsigned lane, float* values) {
  for (unsigned part = 0; part < kLaneParts; ++part) {
    const float4 four = Four::load(block + part_begin(lane, part));
    values[4 * part] = four.x;
    values[4 * part + 1] = four.y;
    values[4 * part + 2] = four.z;
    values[4 * part + 3] = four.w;
  }
}

inline __device__ void store_lane(float* block, unsigned lane, const float* values) {
  for (unsigned part = 0; part < kLaneParts; ++part) {
    const float* four = values + 4 * part;
    Four::store(block + part_begin(lane, part), {four[0], four[1], four[2], four[3]});
  }
}

inline __device__ std::uint32_t absmax_of_warp(const float* values) {
  std::uint32_t absmax = 0;
  for (unsigned i = 0; i < kLaneElements; ++i) absmax = One::larger_magnitude(absmax, values[i]);
  return __reduce_max_sync(kAllLanes, absmax);
}

// The lane's kBits bytes of packed codes, eight elements.
template <int kBits>
__device__ std::uint64_t load_packed(const std::byte* codes, unsigned lane, std::uint32_t* stage) {
  if constexpr (kBits == 4) {
    return reinterpret_cast<const std::uint32_t*>(codes)[lane];
  } else if constexpr (kBits == 2) {
    return reinterpret_cast<const std::uint16_t*>(codes)[lane];
  } else if constexpr (kBits == 1) {
    return reinterpret_cast<const std::uint8_t*>(codes)[lane];
  } else {
    const auto* words = reinterpret_cast<const std::uint32_t*>(codes);
    for (unsigned i = lane; i < 8 * kBits; i += 32) stage[i] = words[i];
    __syncwarp();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(stage) + lane * kBits;
    std::uint64_t packed = 0;
    for (unsigned i = 0; i < kBits; ++i) packed |= std::uint64_t{bytes[i]} << (8 * i);
    __syncwarp();
    return packed;
  }
}

template <int kBits>
__device__ void store_packed(std::byte* codes, unsigned lane, std::uint32_t* stage,
                             std::uint64_t packed) {
  if constexpr (kBits == 4) {
    reinterpret_cast<std::uint32_t*>(codes)[lane] = static_cast<std::uint32_t>(packed);
  } else if constexpr (kBits == 2) {
    reinterpret_cast<std::uint16_t*>(codes)[lane] = static_cast<std::uint16_t>(packed);
  } else if constexpr (kBits == 1) {
    reinterpret_cast<std::uint8_t*>(codes)[lane] = static_cast<std::uint8_t>(packed);
  } else {
    auto* bytes = reinterpret_cast<std::uint8_t*>(stage) + lane * kBits;
    for (unsigned i = 0; i < kBits; ++i) bytes[i] = static_cast<std::uint8_t>(packed >> (8 * i));
    __syncwarp();
    auto* words = reinterpret_cast<std::uint32_t*>(codes);
    for (unsigned i = lane; i < 8 * kBits; i += 32) words[i] = stage[i];
    __syncwarp();
  }
}

// A part without a scale is 16 bytes (fp32) or 8.
template <typename F>
using PartVector = std::conditional_t<F::kElementBytes == 4, uint4, uint2>;

template <typename F>
__device__ LaneCodes<F> load_codes(const std::byte* block, const WarpPlace& warp) {
  LaneCodes<F> codes;
  if constexpr (!F::kScaled) {
    for (unsigned part = 0; part < kLaneParts; ++part) {
      const auto vector = reinterpret_cast<const PartVector<F>*>(block)[part * 32 + warp.lane];
      std::memcpy(codes.parts[part], &vector, sizeof vector);
    }
  } else {
    codes.scale = *reinterpret_cast<const float*>(block);
    const std::byte* behind = block + F::Scaling::kBytes;
    if constexpr (F::kBits == 8) {
      const auto* words = reinterpret_cast<const std::uint32_t*>(behind);
      for (unsigned part = 0; part < kLaneParts; ++part) {
        codes.parts[part][0] = words[part * 32 + warp.lane];
      }
    } else {
      const std::uint64_t eight = kernels::Packing<One, F::kBits>::unpacked_word(
          load_packed<F::kBits>(behind, warp.lane, warp.stage));
      for (unsigned part = 0; part < kLaneParts; ++part) {
        const unsigned from = part * 16 + warp.lane / 2;  // the lane with this word
        const std::uint32_t even = __shfl_sync(kAllLanes, static_cast<std::uint32_t>(eight), from);
        const std::uint32_t odd =
            __shfl_sync(kAllLanes, static_cast<std::uint32_t>(eight >> 32), from);
        codes.parts[part][0] = warp.lane % 2 == 0 ? even : odd;
      }
    }
  }
  return codes;
}

template <typename F>
__device__ void store_codes(std::byte* block, const WarpPlace& warp, const LaneCodes<F>& codes) {
  if constexpr (!F::kScaled) {
    for (unsigned part = 0; part < kLaneParts; ++part) {
      PartVector<F> vector;
      std::memcpy(&vector, codes.parts[part], sizeof vector);
      reinterpret_cast<PartVector<F>*>(block)[part * 32 + warp.lane] = vector;
    }
  } else {
    if (warp.lane == 0) *reinterpret_cast<float*>(block) = codes.scale;
    std::byte* behind = block + F::Scaling::kBytes;
    if constexpr (F::kBits == 8) {
      auto* words = reinterpret_cast<std::uint32_t*>(behind);
      for (unsigned part = 0; part < kLaneParts; ++part) {
        words[part * 32 + warp.lane] = codes.parts[part][0];
      }
    } else {
      std::uint64_t eight = 0;
      for (unsigned half = 0; half < 2; ++half) {
        const unsigned word = 2 * warp.lane + half;
        const std::uint32_t first = __shfl_sync(kAllLanes, codes.parts[0][0], word % 32);
        const std::uint32_t second = __shfl_sync(kAllLanes, codes.parts[1][0], word % 32);
        eight |= std::uint64_t{word < 32 ? first : second} << (32 * half);
      }
      store_packed<F::kBits>(behind, warp.lane, warp.stage,
                             kernels::Packing<One, F::kBits>::packed_word(eight));
    }
  }
}

}  // namespace daso::cuda
