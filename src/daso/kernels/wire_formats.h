// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "daso/kernels/host_device.h"
#include "daso/kernels/wire.h"

// The wire formats of wire.h whose elements are whole bytes, one block at a time, over a vector
// type V of simd/. Each has
//   kBlockBytes     the encoded block's size
//   kLargest        the bits of the largest magnitude that it can carry
//   encode_block()  256 values, of which `absmax` is the largest magnitude as bits; `random` are
//                   the block's bits of packed_formats.h
//   Reader          decodes a block, a vector at a time; element is where in the block it begins
//   kScaled         whether a scale stands before the elements
// and, for lane_formats.h, the arithmetic of single elements.
namespace daso::kernels {

template <typename V>
struct Fp32Format {
  static constexpr bool kScaled = false;
  static constexpr std::size_t kElementBytes = 4;
  static constexpr std::size_t kBlockBytes = kBlockElements * kElementBytes;
  static constexpr std::uint32_t kLargest = 0x7f7fffff;  // all that is finite

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::uint64_t /*random*/,
                           std::byte* encoded) {
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      store(encoded + i * kElementBytes, V::load(values + i));
    }
  }
  DASO_HOST_DEVICE static void store(std::byte* to, typename V::Floats values) {
    V::store(to, values);
  }
  DASO_HOST_DEVICE static typename V::Floats load(const std::byte* from) { return V::load(from); }
  struct Reader {
    const std::byte* block;
    explicit Reader(const std::byte* encoded) : block(encoded) {}
    typename V::Floats at(std::size_t element) const {
      return load(block + element * kElementBytes);
    }
  };
};

template <typename V>
struct Bf16Format {
  static constexpr bool kScaled = false;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr std::size_t kBlockBytes = kBlockElements * kElementBytes;
  static constexpr std::uint32_t kLargest = 0x7f7f7fff;  // the next one rounds to infinity

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::uint64_t /*random*/,
                           std::byte* encoded) {
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      store(encoded + i * kElementBytes, V::load(values + i));
    }
  }
  DASO_HOST_DEVICE static void store(std::byte* to, typename V::Floats values) {
    V::store_bf16(to, values);
  }
  DASO_HOST_DEVICE static typename V::Floats load(const std::byte* from) {
    return V::load_bf16(from);
  }
  struct Reader {
    const std::byte* block;
    explicit Reader(const std::byte* encoded) : block(encoded) {}
    typename V::Floats at(std::size_t element) const {
      return load(block + element * kElementBytes);
    }
  };
};

template <typename V>
struct Fp16Format {
  static constexpr bool kScaled = false;
  static constexpr std::size_t kElementBytes = 2;
  static constexpr std::size_t kBlockBytes = kBlockElements * kElementBytes;
  static constexpr std::uint32_t kLargest = 0x477fe000;  // 65504

  static void encode_block(const float* values, std::uint32_t /*absmax*/, std::uint64_t /*random*/,
                           std::byte* encoded) {
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      store(encoded + i * kElementBytes, V::load(values + i));
    }
  }
  DASO_HOST_DEVICE static void store(std::byte* to, typename V::Floats values) {
    V::store_fp16(to, values);
  }
  DASO_HOST_DEVICE static typename V::Floats load(const std::byte* from) {
    return V::load_fp16(from);
  }
  struct Reader {
    const std::byte* block;
    explicit Reader(const std::byte* encoded) : block(encoded) {}
    typename V::Floats at(std::size_t element) const {
      return load(block + element * kElementBytes);
    }
  };
};

// What a block's values were divided by, in front of it.
template <typename V>
struct Scale {
  static constexpr std::size_t kBytes = 4;

  // 0 where it would be below 2^-126: the block then counts as all zeros.
  DASO_HOST_DEVICE static float of(std::uint32_t absmax, float levels) {
    constexpr float kSmallest = 0x1p-126F;
    float magnitude = 0;
    std::memcpy(&magnitude, &absmax, sizeof magnitude);
    const float scale = magnitude / levels;
    return scale < kSmallest ? 0 : scale;
  }
  DASO_HOST_DEVICE static float in(const std::byte* encoded) {
    float scale = 0;
    std::memcpy(&scale, encoded, kBytes);
    return scale;
  }
};

template <typename V>
struct Int8Format {
  static constexpr bool kScaled = true;
  static constexpr int kBits = 8;
  using Scaling = Scale<V>;
  static constexpr float kMost = 127;
  static constexpr std::uint32_t kZero = 0;  // what stands for 0
  static constexpr std::size_t kBlockBytes = Scale<V>::kBytes + kBlockElements;
  static constexpr std::uint32_t kLargest = 0x7f7ffffe;  // of the next one, 127 * scale is infinite

  static void encode_block(const float* values, std::uint32_t absmax, std::uint64_t /*random*/,
                           std::byte* encoded) {
    const float scale = Scale<V>::of(absmax, kMost);
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

  // An element as its byte, and back, where a thread has one at a time.
  DASO_HOST_DEVICE static std::uint32_t codes_of(float value, float scale, std::uint64_t /*random*/,
                                                 std::size_t /*element*/) {
    std::byte q{};
    V::One::store_int8(&q, V::One::divide(value, scale));
    return static_cast<std::uint32_t>(q);
  }
  DASO_HOST_DEVICE static float values_of(std::uint32_t code, float scale) {
    const auto q = static_cast<std::byte>(code);
    return V::One::multiply(V::One::load_int8(&q), scale);
  }
};

}  // namespace daso::kernels
