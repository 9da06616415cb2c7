// SPDX-License-Identifier: Apache-2.0
// A GPU's warp, played by the CPU: what its lanes compute has the bits of the CPU's tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "daso/kernels/lane_formats.h"
#include "daso/kernels/merge.h"
#include "daso/kernels/simd/scalar.h"
#include "numbers.h"

namespace daso {
namespace {

using kernels::kLaneElements;
using kernels::kWarpLanes;
using kernels::LaneCodes;
using test::bits_of;
using test::Bytes;
using test::Floats;

template <typename F>
struct Warp {
  std::array<LaneCodes<F>, kWarpLanes> lanes;

  // Four codes; `word` is their number in the block.
  std::uint32_t& codes(std::size_t word) {
    return lanes.at(word % kWarpLanes).parts[word / kWarpLanes][0];
  }

  void encode(std::span<const float> block, std::uint64_t random) {
    std::uint32_t absmax = 0;
    for (const float value : block) absmax = simd::Scalar::larger_magnitude(absmax, value);
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      std::array<float, kLaneElements> values{};
      for (unsigned part = 0; part < kernels::kLaneParts; ++part) {
        std::memcpy(&values.at(part * kernels::kPartElements),
                    &block[kernels::part_begin(lane, part)], 16);
      }
      lanes.at(lane) = kernels::encode_lane<F>(values.data(), absmax, random, lane);
    }
  }
  Floats decoded() const {
    Floats block(kBlockElements);
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      std::array<float, kLaneElements> values{};
      kernels::decode_lane<F>(lanes.at(lane), values.data());
      for (unsigned part = 0; part < kernels::kLaneParts; ++part) {
        std::memcpy(&block.at(kernels::part_begin(lane, part)),
                    &values.at(part * kernels::kPartElements), 16);
      }
    }
    return block;
  }

  void store(std::byte* to) {
    if constexpr (F::kScaled) {
      std::memcpy(to, &lanes[0].scale, 4);
      for (std::size_t e = 0; e < kWarpLanes; ++e) {
        const std::uint64_t eight = codes(2 * e) | std::uint64_t{codes(2 * e + 1)} << 32U;
        const std::uint64_t packed = Packing::packed_word(eight);
        std::memcpy(to + 4 + e * F::kBits, &packed, F::kBits);
      }
    } else {
      for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
        for (unsigned part = 0; part < kernels::kLaneParts; ++part) {
          std::memcpy(to + kernels::part_begin(lane, part) * F::kElementBytes,
                      lanes.at(lane).parts[part], 4 * F::kElementBytes);
        }
      }
    }
  }
  void load(const std::byte* from) {
    if constexpr (F::kScaled) {
      for (LaneCodes<F>& lane : lanes) std::memcpy(&lane.scale, from, 4);
      for (std::size_t e = 0; e < kWarpLanes; ++e) {
        std::uint64_t packed = 0;
        std::memcpy(&packed, from + 4 + e * F::kBits, F::kBits);
        const std::uint64_t eight = Packing::unpacked_word(packed);
        codes(2 * e) = static_cast<std::uint32_t>(eight);
        codes(2 * e + 1) = static_cast<std::uint32_t>(eight >> 32U);
      }
    } else {
      for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
        for (unsigned part = 0; part < kernels::kLaneParts; ++part) {
          std::memcpy(lanes.at(lane).parts[part],
                      from + kernels::part_begin(lane, part) * F::kElementBytes,
                      4 * F::kElementBytes);
        }
      }
    }
  }

 private:
  template <typename G, bool = G::kScaled>
  struct PackingOf {
    using Type = kernels::Packing<simd::Scalar, G::kBits>;
  };
  template <typename G>
  struct PackingOf<G, false> {
    using Type = void;
  };
  using Packing = typename PackingOf<F>::Type;
};

template <typename F>
void expect_the_bits_of_the_table(Wire wire, const Floats& values) {
  const Draws draws{.key = 77, .first_block = 5};
  Bytes expected(encoded_bytes(wire, values.size()));
  ASSERT_TRUE(encode(wire, values, Floats(values.size()), expected, draws));
  Floats expected_back(values.size());
  decode(wire, expected, expected_back);
  Bytes bytes(expected.size());
  for (std::size_t block = 0; block * kBlockElements < values.size(); ++block) {
    const auto part = std::span(values).subspan(block * kBlockElements, kBlockElements);
    Warp<F> warp;
    warp.encode(part, kernels::bits_of_block<simd::Scalar>(draws, block));
    warp.store(bytes.data() + block * F::kBlockBytes);
    const Floats back(
        expected_back.begin() + static_cast<std::ptrdiff_t>(block * kBlockElements),
        expected_back.begin() + static_cast<std::ptrdiff_t>((block + 1) * kBlockElements));
    ASSERT_EQ(bits_of(warp.decoded()), bits_of(back)) << name_of(wire) << " " << block;
    Warp<F> reader;
    reader.load(expected.data() + block * F::kBlockBytes);
    ASSERT_EQ(bits_of(reader.decoded()), bits_of(back)) << name_of(wire) << " " << block;
  }
  EXPECT_EQ(bytes, expected) << name_of(wire);
}

template <typename... F>
void expect_of_all(kernels::FormatList<F...> /*formats*/, const Floats& values) {
  std::size_t wire = 0;
  (expect_the_bits_of_the_table<F>(static_cast<Wire>(wire++), values), ...);
}

using AllFormats = kernels::Formats<simd::Scalar>;

TEST(Lanes, HaveTheBitsOfTheTables) {
  std::mt19937 random(12);
  for (const float largest : {1.0F, 65504.0F, 0x1p-120F, 0x1p-126F}) {
    expect_of_all(AllFormats{}, test::hard_numbers(64 * kBlockElements, largest, random));
  }
  expect_of_all(AllFormats{}, test::normal_numbers(64 * kBlockElements, 1, random));
  expect_of_all(AllFormats{}, Floats(kBlockElements));
}

// Quotients at the middle between two levels, whatever their number is, and the largest magnitude.
TEST(Lanes, RoundTiesLikeTheTables) {
  for (const float levels : {1.0F, 3.0F, 7.0F, 15.0F, 31.0F, 63.0F, 127.0F}) {
    Floats values(2 * kBlockElements);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = (static_cast<float>(i % 255) - 127) / 2;
      values[i] = std::max(-levels, std::min(values[i], levels));
    }
    values[0] = levels;
    values[kBlockElements] = -levels;
    expect_of_all(AllFormats{}, values);
  }
}

}  // namespace
}  // namespace daso
