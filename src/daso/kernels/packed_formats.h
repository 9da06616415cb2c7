// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "daso/kernels/wire_formats.h"

// The wire formats of wire.h whose elements are smaller than a byte or rounded at random, as
// wire_formats.h has the others; and the list of all.
namespace daso::kernels {

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled here.

// The numbers that rounding at random draws: 32 bits for each element, a hash of the key and of the
// element's place, so that none depends on the one before.

// 64 bits for a block: number first_block + block of splitmix64 (Steele, Lea and Flood, OOPSLA
// 2014) that begins at the key.
template <typename V>
DASO_HOST_DEVICE std::uint64_t bits_of_block(const Draws& draws, std::size_t block) {
  std::uint64_t bits = draws.key + (draws.first_block + block + 1) * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

// 32 bits for each lane's element of a block: two rounds of multiplying and folding, the constants
// those of lowbias32 (C. Wellons, public domain), with half of the block's bits before each.
template <typename V>
DASO_HOST_DEVICE typename V::Words bits_of_elements(std::uint64_t block_bits, std::size_t element) {
  using Words = typename V::Words;
  const Words low = V::all_words(static_cast<std::uint32_t>(block_bits));
  const Words high = V::all_words(static_cast<std::uint32_t>(block_bits >> 32U));
  Words bits = V::xor_words(V::numbered(static_cast<std::uint32_t>(element)), low);
  bits = V::xor_words(bits, V::template shifted_right<16>(bits));
  bits = V::xor_words(V::multiply_words(bits, V::all_words(0x7feb352dU)), high);
  bits = V::xor_words(bits, V::template shifted_right<15>(bits));
  bits = V::multiply_words(bits, V::all_words(0x846ca68bU));
  return V::xor_words(bits, V::template shifted_right<16>(bits));
}

// Between 256 codes, one byte each, and as many times kBits, the first in the lowest bits. Eight at
// a time, in a word: neighbours move together, then pairs of them, then fours.
template <typename V, int kBits>
struct Packing {
  static_assert(std::endian::native == std::endian::little);  // bytes of a word, lowest first
  static_assert(kBits >= 1 && kBits <= 8);

  static void pack(const std::byte* codes, std::byte* packed) {
    for (std::size_t i = 0; i < kBlockElements; i += sizeof(std::uint64_t), packed += kBits) {
      std::uint64_t word = 0;
      std::memcpy(&word, codes + i, sizeof word);
      word = packed_word(word);
      std::memcpy(packed, &word, kBits);
    }
  }
  static void unpack(const std::byte* packed, std::byte* codes) {
    for (std::size_t i = 0; i < kBlockElements; i += sizeof(std::uint64_t), packed += kBits) {
      std::uint64_t word = 0;
      std::memcpy(&word, packed, kBits);
      word = unpacked_word(word);
      std::memcpy(codes + i, &word, sizeof word);
    }
  }

  // Eight codes.
  DASO_HOST_DEVICE static std::uint64_t packed_word(std::uint64_t word) {
    word = (word & kOne) | ((word >> (8 - kBits)) & (kOne << kBits));
    word = (word & kTwo) | ((word >> (16 - 2 * kBits)) & (kTwo << (2 * kBits)));
    return (word & kFour) | ((word >> (32 - 4 * kBits)) & (kFour << (4 * kBits)));
  }
  DASO_HOST_DEVICE static std::uint64_t unpacked_word(std::uint64_t word) {
    word = (word & kFour) | ((word & (kFour << (4 * kBits))) << (32 - 4 * kBits));
    word = (word & kTwo) | ((word & (kTwo << (2 * kBits))) << (16 - 2 * kBits));
    return (word & kOne) | ((word & (kOne << kBits)) << (8 - kBits));
  }

 private:
  // The first of each two codes, the first two of each four, the first four of all eight.
  static constexpr std::uint64_t kUnit = 1;
  static constexpr std::uint64_t kOne = ((kUnit << kBits) - 1) * 0x0001000100010001U;
  static constexpr std::uint64_t kTwo = ((kUnit << (2 * kBits)) - 1) * 0x0000000100000001U;
  static constexpr std::uint64_t kFour = (kUnit << (4 * kBits)) - 1;
};

// The block's scale, then its codes: c stands for the level q = kStep * c - kLevels. Quotients
// value / scale are rounded to the nearest level, or at random to one of the two next to them.
template <typename V, int kSomeBits, bool kRandom>
struct PackedFormat {
  static constexpr bool kScaled = true;
  using Scaling = Scale<V>;
  static constexpr int kBits = kSomeBits;
  static constexpr int kLevels = kBits == 1 ? 1 : (1 << (kBits - 1)) - 1;  // of each sign
  static constexpr int kStep = kBits == 1 ? 2 : 1;                         // one bit: no level 0
  static constexpr auto kMost = static_cast<float>(kLevels);
  static constexpr std::uint32_t kZero = kLevels;  // what stands for 0, or for nothing
  static constexpr std::size_t kBlockBytes = Scale<V>::kBytes + kBlockElements / 8 * kBits;
  // Of fp32's largest number kMost * scale is infinite where scale was rounded up too far; of the
  // one before it never.
  static constexpr bool kCarriesAll =
      double{0x1.fffffep127F / kMost} * double{kMost} < 0x1.ffffffp127;
  static constexpr std::uint32_t kLargest = kCarriesAll ? 0x7f7fffff : 0x7f7ffffe;

  static void encode_block(const float* values, std::uint32_t absmax, std::uint64_t random,
                           std::byte* encoded) {
    alignas(64) std::byte codes[kBlockElements];
    const float scale = Scale<V>::of(absmax, kMost);
    if (scale == 0) {
      std::memset(codes, kLevels, kBlockElements);
    } else {
      const typename V::Floats scales = V::all(scale);
      for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
        V::store_bytes(codes + i, codes_of(V::load(values + i), scales, random, i));
      }
    }
    std::memcpy(encoded, &scale, Scale<V>::kBytes);
    Packing<V, kBits>::pack(codes, encoded + Scale<V>::kBytes);
  }

  struct Reader {
    alignas(64) std::byte codes[kBlockElements];
    typename V::Floats scales;
    explicit Reader(const std::byte* encoded) : scales(V::all(Scale<V>::in(encoded))) {
      Packing<V, kBits>::unpack(encoded + Scale<V>::kBytes, codes);
    }
    typename V::Floats at(std::size_t element) const {
      return levels_of(V::load_bytes(codes + element), scales);
    }
  };

  // At random: as whole numbers of 2^-24 quotients lie so far above the lowest level; a draw from
  // below one step is added, and whole steps are counted. A multiple of a step stays, and all else
  // goes up with the probability of what it lies above one.
  DASO_HOST_DEVICE static typename V::Words codes_of(typename V::Floats values,
                                                     typename V::Floats scales,
                                                     [[maybe_unused]] std::uint64_t random,
                                                     [[maybe_unused]] std::size_t element) {
    const typename V::Floats quotient = V::clamped(V::divide(values, scales), kMost);
    if constexpr (kRandom) {
      constexpr int kUnitBits = 24;
      constexpr int kStepBits = kUnitBits + kStep - 1;
      constexpr auto kLowest = static_cast<std::uint32_t>(kLevels) << kUnitBits;
      const typename V::Words units = V::rounded(V::multiply(quotient, V::all(0x1p24F)));
      const typename V::Words above = V::add_words(units, V::all_words(kLowest));
      const typename V::Words draw =
          V::template shifted_right<32 - kStepBits>(bits_of_elements<V>(random, element));
      return V::template shifted_right<kStepBits>(V::add_words(above, draw));
    } else {
      return V::add_words(V::rounded(quotient), V::all_words(kLevels));
    }
  }

  // Of one code, where a thread has one at a time.
  DASO_HOST_DEVICE static float values_of(std::uint32_t code, float scale) {
    return levels_of(static_cast<float>(code), scale);
  }

 private:
  DASO_HOST_DEVICE static typename V::Floats levels_of(typename V::Floats codes,
                                                       typename V::Floats scales) {
    if constexpr (kStep == 2) codes = V::add(codes, codes);
    return V::multiply(V::subtract(codes, V::all(kMost)), scales);
  }
};

template <typename V>
using Int4Format = PackedFormat<V, 4, /*kRandom=*/false>;

template <typename V, int kBits>
using QsgdFormat = PackedFormat<V, kBits, /*kRandom=*/true>;

// NOLINTEND(modernize-avoid-c-arrays)

template <typename... F>
struct FormatList {};

// In the order of the enumeration Wire.
template <typename V>
using Formats =
    FormatList<Fp32Format<V>, Bf16Format<V>, Fp16Format<V>, Int8Format<V>, Int4Format<V>,
               QsgdFormat<V, 1>, QsgdFormat<V, 2>, QsgdFormat<V, 3>, QsgdFormat<V, 4>,
               QsgdFormat<V, 5>, QsgdFormat<V, 6>, QsgdFormat<V, 7>, QsgdFormat<V, 8>>;

}  // namespace daso::kernels
