// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daso/kernels/merge.h"
#include "numbers.h"

// The wires that round at random: what their draws make of values, and the draws themselves.
namespace daso {
namespace {

using test::Bytes;
using test::Floats;

const std::vector<Wire> kRandomWires = {Wire::kQsgd1, Wire::kQsgd2, Wire::kQsgd3, Wire::kQsgd4,
                                        Wire::kQsgd5, Wire::kQsgd6, Wire::kQsgd7, Wire::kQsgd8};

int levels_of(Wire wire) {
  const int bits = qsgd_bits(wire);
  return bits == 1 ? 1 : (1 << (bits - 1)) - 1;
}

Bytes drawn(Wire wire, const Floats& values, const Draws& draws,
              InstructionSet set = best_instruction_set()) {
  Bytes bytes(encoded_bytes(wire, values.size()));
  EXPECT_TRUE(encode(wire, values, Floats(values.size()), bytes, draws, cpu_kernels(set)));
  return bytes;
}

Floats rounded(Wire wire, const Floats& values, const Draws& draws) {
  Floats back(values.size());
  decode(wire, drawn(wire, values, draws), back);
  return back;
}

// The values in turn, in a block whose scale is 1: its first has the largest level.
Floats block_of(Wire wire, const Floats& values) {
  Floats block(kBlockElements);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = values[i % values.size()];
  block[0] = static_cast<float>(levels_of(wire));
  return block;
}

Draws draws_of(std::int64_t exchange) { return {.key = draw_key(1, exchange, 0)}; }

TEST(Qsgd, LevelsTravelAsTheyAreWhateverIsDrawn) {
  for (const Wire wire : kRandomWires) {
    const int levels = levels_of(wire);
    Floats values;
    for (int q = -levels; q <= levels; q += wire == Wire::kQsgd1 ? 2 : 1) {
      values.push_back(static_cast<float>(q));
    }
    const Floats block = block_of(wire, values);
    for (std::int64_t exchange = 0; exchange < 50; ++exchange) {
      ASSERT_EQ(rounded(wire, block, draws_of(exchange)), block) << name_of(wire);
    }
  }
}

// Three bits: levels -3 ... 3 are 0 ... 6. Eight elements are 3 bytes, here
// 6 + 1 * 8 + 2 * 8^2 + 3 * 8^3 + 4 * 8^4 + 5 * 8^5 + 6 * 8^6 + 0 * 8^7.
// One bit: +, -, -, +, +, +, -, + are 1 + 8 + 16 + 32 + 128.
TEST(Qsgd, BlocksHaveTheBytesOfTheirDefinition) {
  const auto expect_bytes = [](Wire wire, float scale, const Floats& eight,
                               const std::vector<int>& expected) {
    Floats block;
    for (std::size_t i = 0; i < kBlockElements; ++i) block.push_back(scale * eight[i % 8]);
    Bytes bytes(sizeof scale);
    std::memcpy(bytes.data(), &scale, sizeof scale);
    for (std::size_t i = 0; i < kBlockElements / 8; ++i) {
      for (const int one : expected) bytes.push_back(static_cast<std::byte>(one));
    }
    for (const InstructionSet set : supported_instruction_sets()) {
      EXPECT_EQ(drawn(wire, block, draws_of(3), set), bytes) << name_of(wire);
    }
  };
  expect_bytes(Wire::kQsgd1, 0.5F, {1, -1, -1, 1, 1, 1, -1, 1}, {0xb9});
  expect_bytes(Wire::kQsgd2, 4, {1, 0, -1, 1, -1, -1, 0, 0}, {0x86, 0x50});
  expect_bytes(Wire::kQsgd3, 0.25F, {3, -2, -1, 0, 1, 2, 3, -3}, {0x8e, 0xc6, 0x1a});
  expect_bytes(Wire::kQsgd4, 2, {7, -7, 0, 1, -1, 3, -4, 6}, {0x0e, 0x87, 0xa6, 0xd3});
  expect_bytes(Wire::kQsgd8, 1, {127, -127, 0, 1, -1, 64, -64, 5},
               {254, 0, 127, 128, 126, 191, 63, 132});
}

TEST(Qsgd, RoundsToOneOfTheTwoLevelsNextToAValue) {
  std::mt19937 random(1);
  for (const Wire wire : kRandomWires) {
    const Floats values = test::normal_numbers(64 * kBlockElements, 1, random);
    const Floats back = rounded(wire, values, draws_of(5));
    const float step = wire == Wire::kQsgd1 ? 2 : 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      float absmax = 0;
      const std::size_t block = i / kBlockElements * kBlockElements;
      for (std::size_t j = 0; j < kBlockElements; ++j) {
        absmax = std::max(absmax, std::abs(values[block + j]));
      }
      const float scale = absmax / static_cast<float>(levels_of(wire));
      ASSERT_LE(std::abs(back[i] - values[i]), step * scale * 1.0001F) << name_of(wire);
    }
  }
}

// The variance of a value that lies the share f of a step above a level is f (1 - f) steps squared.
TEST(Qsgd, IsTheValueOnTheAverage) {
  constexpr int kExchanges = 4000;
  for (const Wire wire : kRandomWires) {
    const auto levels = static_cast<float>(levels_of(wire));
    const double step = wire == Wire::kQsgd1 ? 2 : 1;
    const Floats block = block_of(wire, {0, 0.01F * levels, -0.03F * levels, 0.31F * levels,
                                         -0.5F * levels, 0.77F * levels, -0.99F * levels});
    std::vector<double> sums(kBlockElements);
    for (std::int64_t exchange = 0; exchange < kExchanges; ++exchange) {
      const Floats back = rounded(wire, block, draws_of(exchange));
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += double{back[i]};
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double place = (double{block[i]} + double{levels}) / step;
      const double share = place - std::floor(place);
      const double error = step * std::sqrt(share * (1 - share) / kExchanges);
      ASSERT_NEAR(sums[i] / kExchanges, double{block[i]}, 5 * error + 1e-6)
          << name_of(wire) << " " << i;
    }
  }
}

// The largest magnitude of what is still to be sent after some exchanges with nothing new.
float left_after(Wire wire, Floats values, int exchanges) {
  for (std::int64_t exchange = 0; exchange < exchanges; ++exchange) {
    const Floats sent = rounded(wire, values, draws_of(exchange));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= sent[i];
  }
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// What rounding leaves out goes into the next difference: at most one level, so the largest falls
// by the number of levels. The warning about one bit has its reason.
TEST(Qsgd, FromThreeBitsOnWhatIsLeftOutShrinks) {
  std::mt19937 random(2);
  const Floats values = test::normal_numbers(kBlockElements, 1, random);
  const float before = left_after(Wire::kQsgd8, values, 0);
  for (const Wire wire : kRandomWires) {
    if (!test::shrinks(wire)) continue;
    float bound = before;
    for (int exchanges = 1; exchanges < 4; ++exchanges) {
      bound *= 1.001F / static_cast<float>(levels_of(wire));
      EXPECT_LE(left_after(wire, values, exchanges), bound) << name_of(wire);
    }
  }
  EXPECT_GT(left_after(Wire::kQsgd1, values, 20), 4 * before);
}

// Mean product of what two lists of equally many roundings of 1/2 are off by, as a share of the
// variance: 0 within a few standard errors where they are independent.
double correlation(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += (double{a[i]} - 0.5) * (double{b[i]} - 0.5) / 0.25;
  return sum / static_cast<double>(a.size());
}

// Every draw of 4 blocks in many exchanges, values half-way between levels.
Floats halves(std::uint64_t seed, std::int64_t first_exchange, std::int64_t sender) {
  Floats values(4 * kBlockElements, 0.5F);
  for (std::size_t i = 0; i < values.size(); i += kBlockElements) values[i] = 7;
  Floats all;
  for (std::int64_t exchange = first_exchange; exchange < first_exchange + 500; ++exchange) {
    const Floats back = rounded(Wire::kQsgd4, values, {.key = draw_key(seed, exchange, sender)});
    for (std::size_t i = 0; i < back.size(); ++i) {
      if (i % kBlockElements != 0) all.push_back(back[i]);
    }
  }
  return all;
}

TEST(Qsgd, DrawsAreIndependent) {
  const Floats draws = halves(1, 0, 0);
  const double error = 1 / std::sqrt(static_cast<double>(draws.size()));
  constexpr std::size_t kElements = kBlockElements - 1;  // of a block, without its largest
  const auto shifted = [&](std::size_t by) {
    return correlation(Floats(draws.begin(), draws.end() - static_cast<std::ptrdiff_t>(by)),
                       Floats(draws.begin() + static_cast<std::ptrdiff_t>(by), draws.end()));
  };
  EXPECT_NEAR(correlation(draws, draws), 1, 1e-12);
  // Neighbours, elements one vector apart, blocks, exchanges.
  for (const std::size_t by : {std::size_t{1}, std::size_t{2}, std::size_t{8}, std::size_t{16},
                               std::size_t{128}, kElements, 4 * kElements}) {
    EXPECT_NEAR(shifted(by), 0, 5 * error) << by;
  }
  EXPECT_NEAR(correlation(draws, halves(1, 0, 1)), 0, 5 * error);            // another node
  EXPECT_NEAR(correlation(draws, halves(1, 0, kMeanSender)), 0, 5 * error);  // the way back
  EXPECT_NEAR(correlation(draws, halves(2, 0, 0)), 0, 5 * error);            // another seed
  EXPECT_EQ(draws, halves(1, 0, 0));
}

// Against the second program, qsgd_numbers.py, which knows the definition alone.
TEST(Qsgd, BytesAreThoseOfTheSecondProgram) {
  std::ifstream file(DASO_QSGD_NUMBERS);
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 24U);
  for (const nlohmann::json& one : cases) {
    const auto wire = find_wire(one.at("wire").get<std::string>());
    ASSERT_TRUE(wire.has_value());
    const std::uint64_t key =
        draw_key(one.at("seed").get<std::uint64_t>(), one.at("exchange").get<std::int64_t>(),
                 one.at("sender").get<std::int64_t>());
    EXPECT_EQ(key, one.at("key").get<std::uint64_t>());
    Floats values;
    for (const int whole : one.at("values")) {
      values.push_back(static_cast<float>(whole) / 1024);
    }
    Bytes expected;
    for (const int byte : one.at("encoded")) expected.push_back(static_cast<std::byte>(byte));
    const Draws draws{key, one.at("first_block").get<std::uint64_t>()};
    for (const InstructionSet set : supported_instruction_sets()) {
      EXPECT_EQ(drawn(*wire, values, draws, set), expected) << one.at("wire");
    }
  }
}

}  // namespace
}  // namespace daso
