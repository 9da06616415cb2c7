// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

#include "daso/kernels/mean.h"
#include "daso/kernels/merge.h"
#include "golden_file.h"
#include "numbers.h"

namespace daso {
namespace {

using test::bits_of;
using test::Bytes;
using test::Floats;
using test::kAllWires;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();

// As large as every wire can carry, so that none refuses.
float largest_of(Wire wire) { return wire == Wire::kFp16 ? 65504.0F : 0x1p127F; }

Bytes encoded_by(InstructionSet set, Wire wire, const Floats& values, const Floats& anchor,
                 const Draws& draws = {}) {
  Bytes bytes(encoded_bytes(wire, values.size()));
  EXPECT_TRUE(encode(wire, values, anchor, bytes, draws, cpu_kernels(set)));
  return bytes;
}

Bytes encoded(Wire wire, const Floats& values, const Draws& draws = {}) {
  return encoded_by(best_instruction_set(), wire, values, Floats(values.size()), draws);
}

Floats decoded_by(InstructionSet set, Wire wire, const Bytes& bytes, std::size_t elements) {
  Floats values(elements, kNan);
  decode(wire, bytes, values, cpu_kernels(set));
  return values;
}

TEST(Wire, NamesAreThoseOfTheFlag) {
  for (const Wire wire : kAllWires) EXPECT_EQ(find_wire(name_of(wire)), wire);
  EXPECT_EQ(name_of(Wire::kInt8), "int8");
  EXPECT_EQ(wire_names().size(), kWires);
  EXPECT_EQ(wire_names().back(), name_of(kAllWires.back()));
  EXPECT_EQ(name_of(Wire::kQsgd8), "qsgd8");
  for (const char* wrong : {"int3", "qsgd", "qsgd0", "qsgd9", ""}) EXPECT_FALSE(find_wire(wrong));
}

TEST(Wire, EveryInstructionSetEncodesAsDefined) {
  std::mt19937 random(1);
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const Wire wire : kAllWires) {
      for (const std::size_t blocks : {0U, 1U, 2U, 3U, 7U, 64U}) {
        SCOPED_TRACE(std::string(name_of(set)) + " " + std::string(name_of(wire)));
        const std::size_t elements = blocks * kBlockElements;
        const Floats values = test::hard_numbers(elements, largest_of(wire) / 2, random);
        const Floats anchor = test::hard_numbers(elements, largest_of(wire) / 2, random);
        const Floats difference = test::plain_difference(values, anchor);
        const Draws draws{.key = random(), .first_block = random()};
        const Bytes bytes = encoded_by(set, wire, values, anchor, draws);
        ASSERT_EQ(bytes, test::plain_encoded(wire, difference, draws));
        ASSERT_EQ(bits_of(decoded_by(set, wire, bytes, elements)),
                  bits_of(test::plain_rounded(wire, difference, draws)));
      }
    }
  }
}

// Every bf16 and fp16 number, and the points half-way to its neighbour.
TEST(Wire, SixteenBitsRoundToNearestEvenEverywhere) {
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const Wire wire : {Wire::kBf16, Wire::kFp16}) {
      Bytes all;
      for (unsigned half = 0; half < 0x10000; ++half) {
        const unsigned infinite = wire == Wire::kBf16 ? 0x7f80 : 0x7c00;
        const unsigned finite = (half & 0x7fffU) < infinite ? half : 0;
        all.push_back(static_cast<std::byte>(finite & 0xffU));
        all.push_back(static_cast<std::byte>(finite >> 8U));
      }
      const Floats values = decoded_by(set, wire, all, 0x10000);
      EXPECT_EQ(encoded_by(set, wire, values, Floats(values.size())), all);
      Floats between(values.size());
      for (std::size_t i = 0; i + 1 < values.size(); ++i) {
        between[i] = static_cast<float>((double{values[i]} + double{values[i + 1]}) / 2);
      }
      EXPECT_EQ(encoded_by(set, wire, between, Floats(between.size())),
                test::plain_encoded(wire, between));
    }
  }
}

// Quotients at and next to the middle between two whole numbers.
void expect_rounding_like_a_true_division(Wire wire, int levels) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> magnitude(-60, 60);
  std::uniform_int_distribution<int> place(-levels, levels - 1);
  std::uniform_int_distribution<int> steps(-4, 4);
  constexpr std::size_t kBlocks = 2000;
  Floats values(kBlocks * kBlockElements);
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const float absmax = std::exp2(magnitude(random));
    const float scale = absmax / static_cast<float>(levels);
    for (std::size_t i = 0; i < kBlockElements; ++i) {
      float value = (static_cast<float>(place(random)) + 0.5F) * scale;
      for (int n = std::abs(steps(random)); n > 0; --n) {
        value = std::nextafter(value, n % 2 == 0 ? kMost : -kMost);
      }
      values[block * kBlockElements + i] = value;
    }
    values[block * kBlockElements + 7] = absmax;
  }
  for (const InstructionSet set : supported_instruction_sets()) {
    EXPECT_EQ(encoded_by(set, wire, values, Floats(values.size())),
              test::plain_encoded(wire, values));
  }
}

TEST(Wire, ScaledIntegersRoundLikeATrueDivisionEverywhere) {
  expect_rounding_like_a_true_division(Wire::kInt8, 127);
  expect_rounding_like_a_true_division(Wire::kInt4, 7);
}

// -7 ... 7 in steps of a half, the scale 1: halves go to the even neighbour.
TEST(Wire, Int4HasTheBytesOfItsDefinition) {
  Floats values(kBlockElements);
  for (std::size_t i = 0; i < 29; ++i) values[i] = static_cast<float>(i) / 2 - 7;
  const std::vector<int> q = {-7, -6, -6, -6, -5, -4, -4, -4, -3, -2, -2, -2, -1, 0, 0,
                              0,  1,  2,  2,  2,  3,  4,  4,  4,  5,  6,  6,  6,  7, 0};
  Bytes expected(132, std::byte{0x77});  // two zeros
  const float one = 1;
  std::memcpy(expected.data(), &one, sizeof one);
  for (std::size_t i = 0; i < q.size(); i += 2) {
    expected.at(4 + i / 2) = static_cast<std::byte>((q[i] + 7) + 16 * (q[i + 1] + 7));
  }
  for (const InstructionSet set : supported_instruction_sets()) {
    const Bytes bytes = encoded_by(set, Wire::kInt4, values, Floats(kBlockElements));
    EXPECT_EQ(bytes, expected);
    const Floats back = decoded_by(set, Wire::kInt4, bytes, kBlockElements);
    for (std::size_t i = 0; i < q.size(); ++i) EXPECT_EQ(back[i], static_cast<float>(q[i])) << i;
  }
}

// Large results at the beginning of a cache line are written another way.
TEST(Wire, LargeSegmentsHaveTheSameBytes) {
  std::mt19937 random(4);
  const Floats values = test::normal_numbers(std::size_t{1} << 20U, 1, random);
  const Floats anchor = test::normal_numbers(values.size(), 1, random);
  for (const Wire wire : kAllWires) {
    const Bytes expected = test::plain_encoded(wire, test::plain_difference(values, anchor));
    Bytes room(expected.size() + 64);
    const auto begin = reinterpret_cast<std::uintptr_t>(room.data());
    const std::span<std::byte> line =
        std::span(room).subspan((64 - begin % 64) % 64, expected.size());
    for (const InstructionSet set : supported_instruction_sets()) {
      ASSERT_TRUE(encode(wire, values, anchor, line, {}, cpu_kernels(set)));
      EXPECT_EQ(Bytes(line.begin(), line.end()), expected);
    }
  }
}

TEST(Wire, EncodedSegmentsMayLieAnywhere) {
  std::mt19937 random(2);
  const Floats values = test::normal_numbers(3 * kBlockElements, 1, random);
  const Floats anchor(values.size());
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const Wire wire : kAllWires) {
      const Bytes expected = encoded_by(set, wire, values, anchor);
      Bytes shifted(expected.size() + 1);
      const std::span<std::byte> odd = std::span(shifted).subspan(1);
      ASSERT_TRUE(encode(wire, values, anchor, odd, {}, cpu_kernels(set)));
      EXPECT_EQ(Bytes(odd.begin(), odd.end()), expected);
      Floats back(values.size());
      decode(wire, odd, back, cpu_kernels(set));
      EXPECT_EQ(back, decoded_by(set, wire, expected, values.size()));
    }
  }
}

TEST(Wire, SlicesAreContiguous) {
  std::mt19937 random(3);
  const Floats values = test::normal_numbers(5 * kBlockElements, 1, random);
  for (const Wire wire : kAllWires) {
    const std::size_t cut = 2 * kBlockElements;
    Bytes both =
        encoded(wire, Floats(values.begin(), values.begin() + cut), {.key = 5, .first_block = 7});
    const Bytes second =
        encoded(wire, Floats(values.begin() + cut, values.end()), {.key = 5, .first_block = 9});
    EXPECT_EQ(both.size(), encoded_bytes(wire, cut));
    both.insert(both.end(), second.begin(), second.end());
    EXPECT_EQ(both, encoded(wire, values, {.key = 5, .first_block = 7}));
  }
}

TEST(Wire, BytesPerBlockAreThoseOfTheDefinition) {
  EXPECT_EQ(encoded_bytes(Wire::kFp32, 512), 2048U);
  EXPECT_EQ(encoded_bytes(Wire::kBf16, 512), 1024U);
  EXPECT_EQ(encoded_bytes(Wire::kFp16, 512), 1024U);
  EXPECT_EQ(encoded_bytes(Wire::kInt8, 512), 520U);
  EXPECT_EQ(encoded_bytes(Wire::kInt4, 512), 264U);
  EXPECT_EQ(encoded_bytes(Wire::kQsgd1, 512), 72U);
  EXPECT_EQ(encoded_bytes(Wire::kQsgd3, 512), 200U);
  EXPECT_EQ(encoded_bytes(Wire::kQsgd8, 512), 520U);
  EXPECT_EQ(encoded_bytes(Wire::kInt8, 0), 0U);
  EXPECT_THROW(encoded_bytes(Wire::kInt8, 300), std::logic_error);
}

TEST(Wire, BlocksOfSmallNumbersAreZero) {
  for (const auto& [wire, levels] :
       {std::pair{Wire::kInt8, 127.0F}, std::pair{Wire::kInt4, 7.0F}, std::pair{Wire::kQsgd3, 3.0F},
        std::pair{Wire::kQsgd8, 127.0F}}) {
    Floats values(2 * kBlockElements, 0x1p-126F * (levels - 1));  // scale just below 2^-126
    values.at(kBlockElements) = 0x1p-126F * levels;               // and at it
    const Floats back =
        decoded_by(best_instruction_set(), wire, encoded(wire, values), values.size());
    EXPECT_EQ(bits_of(Floats(back.begin(), back.begin() + kBlockElements)),
              bits_of(Floats(kBlockElements)));
    EXPECT_EQ(back.at(kBlockElements), 0x1p-126F * levels);
    EXPECT_EQ(back.at(kBlockElements + 1), 0x1p-126F * (levels - 1));
  }
}

struct Unsendable {
  Wire wire;
  float value;
  float anchor;
};

TEST(Wire, WhatIsNotFiniteIsRefusedAndFound) {
  const std::vector<Unsendable> cases = {
      {Wire::kFp32, kNan, 0},        {Wire::kFp32, 0, kInfinity},  {Wire::kFp32, kMost, -kMost},
      {Wire::kBf16, kNan, 0},        {Wire::kBf16, -kInfinity, 0}, {Wire::kBf16, kMost, 0},
      {Wire::kBf16, 0x1.ffp127F, 0}, {Wire::kFp16, -kNan, 0},      {Wire::kFp16, kInfinity, 0},
      {Wire::kFp16, 65504.004F, 0},  {Wire::kFp16, -65505, 0},     {Wire::kFp16, 65504, -32},
      {Wire::kInt8, kNan, 0},        {Wire::kInt8, kInfinity, 0},  {Wire::kInt8, -kMost, 0},
      {Wire::kInt8, -kMost, kMost},  {Wire::kInt4, kNan, 0},       {Wire::kInt4, -kInfinity, 0},
      {Wire::kInt4, kMost, -kMost},  {Wire::kQsgd1, kInfinity, 0}, {Wire::kQsgd4, kNan, 0},
      {Wire::kQsgd6, kMost, 0},      {Wire::kQsgd8, -kMost, 0}};
  constexpr std::size_t kElements = 5 * kBlockElements;
  for (const Unsendable& one : cases) {
    for (const std::size_t place : {0U, 255U, 256U, 700U, 1279U}) {
      Floats values(kElements, 1);
      Floats anchor(kElements);
      values.at(place) = one.value;
      anchor.at(place) = one.anchor;
      Bytes bytes(encoded_bytes(one.wire, kElements));
      for (const InstructionSet set : supported_instruction_sets()) {
        EXPECT_FALSE(encode(one.wire, values, anchor, bytes, {}, cpu_kernels(set)))
            << one.value << " " << place;
      }
      EXPECT_EQ(first_non_finite(one.wire, values, anchor), place);
    }
  }
}

TEST(Wire, TheLargestThatFitTravel) {
  const std::vector<Unsendable> cases = {{Wire::kFp32, kMost, 0},
                                         {Wire::kBf16, 0x1.fefffep127F, 0},
                                         {Wire::kFp16, -65504, 0},
                                         {Wire::kInt8, std::nextafter(kMost, 0.0F), 0},
                                         {Wire::kInt4, -kMost, 0},
                                         {Wire::kQsgd1, kMost, 0},
                                         {Wire::kQsgd2, -kMost, 0},
                                         {Wire::kQsgd3, kMost, 0},
                                         {Wire::kQsgd4, kMost, 0},
                                         {Wire::kQsgd5, -kMost, 0},
                                         {Wire::kQsgd6, std::nextafter(-kMost, 0.0F), 0},
                                         {Wire::kQsgd7, kMost, 0},
                                         {Wire::kQsgd8, std::nextafter(kMost, 0.0F), 0}};
  for (const Unsendable& one : cases) {
    Floats values(kBlockElements);
    values.at(9) = one.value;
    EXPECT_EQ(first_non_finite(one.wire, values, Floats(kBlockElements)), std::nullopt);
    for (const InstructionSet set : supported_instruction_sets()) {
      const Bytes bytes = encoded_by(set, one.wire, values, Floats(kBlockElements));
      EXPECT_TRUE(std::isfinite(decoded_by(set, one.wire, bytes, kBlockElements).at(9)));
    }
  }
}

TEST(Wire, SpansThatDoNotFitAreABug) {
  const Floats values(512);
  const Floats anchor(256);
  Bytes bytes(520);
  EXPECT_THROW((void)encode(Wire::kInt8, values, anchor, bytes), std::logic_error);
  EXPECT_THROW((void)encode(Wire::kBf16, values, values, bytes), std::logic_error);
}

TEST(DrawKey, EverySenderOfEveryExchangeHasItsOwn) {
  std::set<std::uint64_t> keys;
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    for (std::int64_t exchange = 0; exchange < 100; ++exchange) {
      for (std::int64_t sender = kMeanSender; sender < 16; ++sender) {
        keys.insert(draw_key(seed, exchange, sender));
      }
    }
  }
  EXPECT_EQ(keys.size(), 3U * 100 * 17);
  EXPECT_EQ(keys.count(draw_key(2, 99, 15)), 1U);  // the same when asked again
}

// The golden exchanges, on one instruction set.
class GoldenWire {
 public:
  GoldenWire(const nlohmann::json& exchange, InstructionSet set)
      : set_(set),
        elements_(exchange.at("elements").get<std::size_t>()),
        padded_((elements_ + kBlockElements - 1) / kBlockElements * kBlockElements),
        residual_(padded_) {
    int ranks = 0;
    for (const int node : exchange.at("nodes")) ranks += node;
    for (const int node : exchange.at("nodes")) {
      weights_.push_back(static_cast<float>(node) / static_cast<float>(ranks));
    }
  }

  void check(const nlohmann::json& round) {
    std::vector<Bytes> sent;
    for (std::size_t n = 0; n < weights_.size(); ++n) {
      sent.push_back(
          encoded_by(set_, Wire::kInt8, padded(round.at("differences").at(n)), Floats(padded_)));
      check_encoded(sent.back(), round.at("q").at(n), round.at("scales").at(n));
    }
    check_mean(sent, round.at("mean"));
    Bytes back(encoded_bytes(Wire::kInt8, padded_));
    ASSERT_TRUE(average(Wire::kInt8, terms(sent), residual_, back, {}, cpu_kernels(set_)));
    check_encoded(back, round.at("back_q"), round.at("back_scales"));
    check_values(decoded_by(set_, Wire::kInt8, back, padded_), round.at("back"));
    check_values(residual_, round.at("rest"));
  }

 private:
  std::vector<Difference> terms(const std::vector<Bytes>& sent) const {
    std::vector<Difference> terms;
    for (std::size_t n = 0; n < sent.size(); ++n) terms.push_back({sent[n], weights_[n]});
    return terms;
  }

  Floats padded(const nlohmann::json& values) const {
    auto floats = values.get<Floats>();
    floats.resize(padded_);
    return floats;
  }

  void check_encoded(const Bytes& bytes, const nlohmann::json& q, const nlohmann::json& scales) {
    constexpr std::size_t kBlockBytes = 260;
    for (std::size_t i = 0; i < elements_; ++i) {
      const std::byte one = bytes.at(i / 256 * kBlockBytes + 4 + i % 256);
      ASSERT_EQ(static_cast<std::int8_t>(one), q.at(i).get<int>()) << i;
    }
    for (std::size_t block = 0; block < padded_ / kBlockElements; ++block) {
      float scale = 0;
      std::memcpy(&scale, bytes.data() + block * kBlockBytes, sizeof scale);
      ASSERT_EQ(scale, scales.at(block).get<float>()) << block;
    }
  }

  // The mean before the residual is added: what the decoded differences give in fp32.
  void check_mean(const std::vector<Bytes>& sent, const nlohmann::json& expected) {
    std::vector<Floats> values;
    std::vector<Part> parts;
    values.reserve(sent.size());
    for (const Bytes& one : sent) values.push_back(decoded_by(set_, Wire::kInt8, one, padded_));
    for (std::size_t n = 0; n < sent.size(); ++n) parts.push_back({values[n], weights_[n]});
    Floats mean(padded_);
    ASSERT_TRUE(weighted_mean(parts, {}, mean, cpu_kernels(set_)));
    check_values(mean, expected);
  }

  void check_values(Floats got, const nlohmann::json& expected) const {
    got.resize(elements_);
    ASSERT_EQ(got, expected.get<Floats>());
  }

  InstructionSet set_;
  std::size_t elements_;
  std::size_t padded_;
  std::vector<float> weights_;
  Floats residual_;
};

TEST(Wire, GoldenExchangesHaveTheSameBits) {
  const nlohmann::json exchanges = test::golden("wire.json");
  ASSERT_FALSE(exchanges.empty());
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const nlohmann::json& exchange : exchanges) {
      GoldenWire golden(exchange, set);
      ASSERT_FALSE(exchange.at("rounds").empty());
      for (const nlohmann::json& round : exchange.at("rounds")) golden.check(round);
    }
  }
}

}  // namespace
}  // namespace daso
