// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "daso/kernels/wire.h"

// The wire formats of wire.h whose elements are whole bytes, one block at a time, over a vector
// type V of simd/. Each has
//   kBlockBytes     the encoded block's size
//   kLargest        the bits of the largest magnitude that it can carry
//   encode_block()  256 values, of which `absmax` is the largest magnitude as bits; `random` are
//                   the block's bits of packed_formats.h
//   Reader          decodes a block, a vector at a time; element is where in the block it begins
namespace daso::kernels {

template <typename V>
struct Fp32Format {
  static constexpr std::size_t kBlockBytes = kBlockElements * 4;
  static constexpr std::uint32_t kLargest = 0x7f7fffff;  // all that is finite

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::uint64_t /*random*/,
                           std::byte* encoded) {
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      V::store(encoded + i * 4, V::load(values + i));
    }
  }
  struct Reader {
    const std::byte* block;
    explicit Reader(const std::byte* encoded) : block(encoded) {}
    typename V::Floats at(std::size_t element) const { return V::load(block + element * 4); }
  };
};

template <typename V>
struct Bf16Format {
  static constexpr std::size_t kBlockBytes = kBlockElements * 2;
  static constexpr std::uint32_t kLargest = 0x7f7f7fff;  // the next one rounds to infinity

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::uint64_t /*random*/,
                           std::byte* encoded) {
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      V::store_bf16(encoded + i * 2, V::load(values + i));
    }
  }
  struct Reader {
    const std::byte* block;
    explicit Reader(const std::byte* encoded) : block(encoded) {}
    typename V::Floats at(std::size_t element) const { return V::load_bf16(block + element * 2); }
  };
};

template <typename V>
struct Fp16Format {
  static constexpr std::size_t kBlockBytes = kBlockElements * 2;
  static constexpr std::uint32_t kLargest = 0x477fe000;  // 65504

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::uint64_t /*random*/,
                           std::byte* encoded) {
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      V::store_fp16(encoded + i * 2, V::load(values + i));
    }
  }
  struct Reader {
    const std::byte* block;
    explicit Reader(const std::byte* encoded) : block(encoded) {}
    typename V::Floats at(std::size_t element) const { return V::load_fp16(block + element * 2); }
  };
};

// What a block's values were divided by, in front of it.
template <typename V>
struct Scale {
  static constexpr std::size_t kBytes = 4;

  // 0 where it would be below 2^-126: the block then counts as all zeros.
  static float of(std::uint32_t absmax, float levels) {
    constexpr float kSmallest = 0x1p-126F;
    float magnitude = 0;
    std::memcpy(&magnitude, &absmax, sizeof magnitude);
    const float scale = magnitude / levels;
    return scale < kSmallest ? 0 : scale;
  }
  static float in(const std::byte* encoded) {
    float scale = 0;
    std::memcpy(&scale, encoded, kBytes);
    return scale;
  }
};

template <typename V>
struct Int8Format {
  static constexpr std::size_t kBlockBytes = Scale<V>::kBytes + kBlockElements;
  static constexpr std::uint32_t kLargest = 0x7f7ffffe;  // of the next one, 127 * scale is infinite

  static void encode_block(const float* values, std::uint32_t absmax, std::uint64_t /*random*/,
                           std::byte* encoded) {
    const float scale = Scale<V>::of(absmax, 127);
    if (scale == 0) {
      std::memset(encoded, 0, kBlockBytes);
      return;
    }
    std::memcpy(encoded, &scale, Scale<V>::kBytes);
    std::byte* q = encoded + Scale<V>::kBytes;
    const typename V::Floats scales = V::all(scale);
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      V::store_int8(q + i, V::divide(V::load(values + i), scales));
    }
  }
  struct Reader {
    const std::byte* q;
    typename V::Floats scales;
    explicit Reader(const std::byte* encoded)
        : q(encoded + Scale<V>::kBytes), scales(V::all(Scale<V>::in(encoded))) {}
    typename V::Floats at(std::size_t element) const {
      return V::multiply(V::load_int8(q + element), scales);
    }
  };
};

}  // namespace daso::kernels
