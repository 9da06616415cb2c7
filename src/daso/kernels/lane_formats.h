// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/packed_formats.h"

// A block of a wire format as the 32 threads (lanes) of a GPU's warp hold it. Lane l has two parts
// of four neighbouring elements, 4 l ... 4 l + 3 and as many 128 further on, so that the lanes
// together read and write 512 bytes side by side. This file is what a lane computes by itself, over
// a format F whose vector is of one element; the bits are those of wire_formats.h, whose functions
// do the arithmetic. src/daso/cuda moves bytes between lanes and memory; tests do so on the CPU.
namespace daso::kernels {

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions are not for GPUs.

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kLaneParts = 2;
inline constexpr unsigned kPartElements = 4;
inline constexpr unsigned kLaneElements = kLaneParts * kPartElements;

// Where in the block a part of a lane begins.
DASO_HOST_DEVICE constexpr unsigned part_begin(unsigned lane, unsigned part) {
  return kPartElements * (kWarpLanes * part + lane);
}

// What a lane holds of an encoded block. With a scale a part is one word, a byte for each element;
// the words of a block are numbered by their elements, so word w is part w / 32 of lane w % 32.
// Neighbours 2 e and 2 e + 1 are the eight codes that Packing makes kBits bytes of, the eth in the
// block. Without a scale a part is the encoded elements themselves.
template <typename F, bool kScaled = F::kScaled>
struct LaneCodes {
  static constexpr unsigned kPartWords = 1;
  float scale;
  std::uint32_t parts[kLaneParts][kPartWords];
};

template <typename F>
struct LaneCodes<F, false> {
  static constexpr unsigned kPartWords = kPartElements * F::kElementBytes / 4;
  std::uint32_t parts[kLaneParts][kPartWords];
};

// `absmax` is the largest magnitude of the whole block, at most F::kLargest; `random` are the
// block's bits.
template <typename F>
DASO_HOST_DEVICE LaneCodes<F> encode_lane(const float* values, std::uint32_t absmax,
                                          std::uint64_t random, unsigned lane) {
  LaneCodes<F> codes{};
  if constexpr (F::kScaled) codes.scale = F::Scaling::of(absmax, F::kMost);
  for (unsigned part = 0; part < kLaneParts; ++part) {
    const float* four = values + part * kPartElements;
    if constexpr (F::kScaled) {
      const unsigned begin = part_begin(lane, part);
      std::uint32_t word = F::kZero * 0x01010101U;
      if (codes.scale != 0) {
        word = 0;
        for (unsigned i = 0; i < kPartElements; ++i) {
          word |= F::codes_of(four[i], codes.scale, random, begin + i) << (8 * i);
        }
      }
      codes.parts[part][0] = word;
    } else {
      alignas(16) std::byte bytes[kPartElements * F::kElementBytes];
      for (unsigned i = 0; i < kPartElements; ++i) F::store(bytes + i * F::kElementBytes, four[i]);
      std::memcpy(codes.parts[part], bytes, sizeof bytes);
    }
  }
  return codes;
}

template <typename F>
DASO_HOST_DEVICE void decode_lane(const LaneCodes<F>& codes, float* values) {
  for (unsigned part = 0; part < kLaneParts; ++part) {
    float* four = values + part * kPartElements;
    if constexpr (F::kScaled) {
      for (unsigned i = 0; i < kPartElements; ++i) {
        four[i] = F::values_of((codes.parts[part][0] >> (8 * i)) & 0xffU, codes.scale);
      }
    } else {
      alignas(16) std::byte bytes[kPartElements * F::kElementBytes];
      std::memcpy(bytes, codes.parts[part], sizeof bytes);
      for (unsigned i = 0; i < kPartElements; ++i) four[i] = F::load(bytes + i * F::kElementBytes);
    }
  }
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace daso::kernels
