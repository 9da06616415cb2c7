// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "daso/global/wire.h"

// The wire formats of wire.h, one block at a time, over a vector type V of base/simd. Each has
//   kBlockBytes     the encoded block's size
//   kLargest        the bits of the largest magnitude that it can carry
//   encode_block()  256 values, of which `absmax` is the largest magnitude as bits
//   Reader          decodes a block, a vector at a time; element is where in the block it begins
namespace daso::kernels {

template <typename V>
struct Fp32Format {
  static constexpr std::size_t kBlockBytes = kBlockElements * 4;
  static constexpr std::uint32_t kLargest = 0x7f7fffff;  // all that is finite

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::byte* encoded) {
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

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::byte* encoded) {
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

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::byte* encoded) {
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

template <typename V>
struct Int8Format {
  static constexpr std::size_t kScaleBytes = 4;
  static constexpr std::size_t kBlockBytes = kScaleBytes + kBlockElements;
  static constexpr std::uint32_t kLargest = 0x7f7ffffe;  // of the next one, 127 * scale is infinite
  static constexpr float kSmallestScale = 0x1p-126F;

  static void encode_block(const float* values, std::uint32_t absmax, std::byte* encoded) {
    float magnitude = 0;
    std::memcpy(&magnitude, &absmax, sizeof magnitude);
    const float scale = magnitude / 127.0F;
    if (scale < kSmallestScale) {
      std::memset(encoded, 0, kBlockBytes);
      return;
    }
    std::memcpy(encoded, &scale, kScaleBytes);
    std::byte* q = encoded + kScaleBytes;
    const typename V::Floats scales = V::all(scale);
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      V::store_int8(q + i, V::divide(V::load(values + i), scales));
    }
  }
  struct Reader {
    const std::byte* q;
    typename V::Floats scales;
    explicit Reader(const std::byte* encoded) : q(encoded + kScaleBytes) {
      float scale = 0;
      std::memcpy(&scale, encoded, kScaleBytes);
      scales = V::all(scale);
    }
    typename V::Floats at(std::size_t element) const {
      return V::multiply(V::load_int8(q + element), scales);
    }
  };
};

}  // namespace daso::kernels
