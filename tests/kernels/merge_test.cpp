// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "numbers.h"

namespace daso {
namespace {

using test::bits_of;
using test::Bytes;
using test::Floats;
using test::kAllWires;

// Some magnitudes that all wires carry, also after a sum of a few.
constexpr float kLargest = 0x1p13F;

Bytes sent_by(Wire wire, const Floats& values, const Floats& anchor, const Draws& draws = {}) {
  Bytes bytes(encoded_bytes(wire, values.size()));
  EXPECT_TRUE(encode(wire, values, anchor, bytes, draws));
  return bytes;
}

// Nodes that exchange: all that an exchange is made of but the network.
struct Nodes {
  Wire wire;
  Floats weights;
  std::vector<Floats> parameters;  // of each node
  Floats anchor;
  Floats residual;
  std::vector<Bytes> sent;
  Bytes back;
  std::int64_t number = 0;  // of the exchange

  static constexpr std::uint64_t kSeed = 3;

  Nodes(Wire kind, const Floats& shares, const Floats& start)
      : wire(kind),
        weights(shares),
        parameters(shares.size(), start),
        anchor(start),
        residual(start.size()),
        back(encoded_bytes(kind, start.size())) {}

  void start() {
    sent.clear();
    for (std::size_t n = 0; n < parameters.size(); ++n) {
      const Draws draws{draw_key(kSeed, number, static_cast<std::int64_t>(n))};
      sent.push_back(sent_by(wire, parameters[n], anchor, draws));
    }
    std::vector<Difference> differences;
    for (std::size_t n = 0; n < sent.size(); ++n) differences.push_back({sent[n], weights[n]});
    ASSERT_TRUE(average(wire, differences, residual, back, {draw_key(kSeed, number, kMeanSender)}));
    ++number;
  }

  template <typename Rule>
  void merge(const Rule& rule) {
    Floats moved;
    for (std::size_t n = 0; n < parameters.size(); ++n) {
      moved = anchor;
      rule(Merge{wire, sent[n], back, parameters[n], moved}, n);
    }
    anchor = moved;
  }
  void exchange() {
    start();
    merge([](const Merge& merge, std::size_t) { merge_corrected(merge); });
  }

  double mean(std::size_t element) const {
    double sum = 0;
    for (std::size_t n = 0; n < weights.size(); ++n) {
      sum += double{weights[n]} * double{parameters[n][element]};
    }
    return sum;
  }
};

class EveryVersion : public testing::TestWithParam<std::tuple<InstructionSet, Wire>> {
 protected:
  const Kernels& kernels() const { return cpu_kernels(std::get<0>(GetParam())); }
  Wire wire() const { return std::get<1>(GetParam()); }
  std::mt19937 random{7};
};

INSTANTIATE_TEST_SUITE_P(Kernels, EveryVersion,
                         testing::Combine(testing::ValuesIn(supported_instruction_sets()),
                                          testing::ValuesIn(kAllWires)),
                         [](const auto& param) {
                           return std::string(name_of(std::get<0>(param.param))) + "_" +
                                  std::string(name_of(std::get<1>(param.param)));
                         });

TEST_P(EveryVersion, AveragesAsDefined) {
  for (const std::size_t blocks : {0U, 1U, 2U, 3U, 33U}) {
    for (const std::size_t nodes : {1U, 2U, 5U}) {
      const std::size_t elements = blocks * kBlockElements;
      Floats residual = test::hard_numbers(elements, kLargest, random);
      Floats sum(elements);
      std::vector<Bytes> sent;
      std::vector<Difference> differences;
      for (std::size_t n = 0; n < nodes; ++n) {
        const float weight = 1.0F / static_cast<float>(n + 2);
        const Floats difference = test::hard_numbers(elements, kLargest, random);
        const Floats q = test::plain_rounded(wire(), difference);
        for (std::size_t i = 0; i < elements; ++i) {
          const float product = weight * q[i];
          sum[i] = n == 0 ? product : sum[i] + product;
        }
        sent.push_back(sent_by(wire(), difference, Floats(elements)));
        differences.push_back({{}, weight});
      }
      for (std::size_t n = 0; n < nodes; ++n) differences[n].encoded = sent[n];
      for (std::size_t i = 0; i < elements; ++i) sum[i] += residual[i];
      Bytes back(encoded_bytes(wire(), elements));
      const Draws draws{.key = random(), .first_block = random()};
      ASSERT_TRUE(average(wire(), differences, residual, back, draws, kernels()));
      ASSERT_EQ(back, test::plain_encoded(wire(), sum, draws));
      ASSERT_EQ(bits_of(residual),
                bits_of(test::plain_difference(sum, test::plain_rounded(wire(), sum, draws))));
    }
  }
}

TEST_P(EveryVersion, MergesAsDefined) {
  for (const std::size_t blocks : {0U, 1U, 2U, 3U, 33U}) {
    const std::size_t elements = blocks * kBlockElements;
    const Floats own = test::hard_numbers(elements, kLargest, random);
    const Floats mean = test::hard_numbers(elements, kLargest, random);
    const Floats sent = test::hard_numbers(elements, kLargest, random);
    const Floats start = test::hard_numbers(elements, kLargest, random);
    const Floats anchor = test::hard_numbers(elements, kLargest, random);
    const Floats q_own = test::plain_rounded(wire(), own);
    const Floats q_mean = test::plain_rounded(wire(), mean);
    Floats corrected(elements);
    Floats paper(elements);
    Floats moved(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      corrected[i] = start[i] + (q_mean[i] - q_own[i]);
      const float estimate = (sent[i] + q_mean[i]) - q_own[i];
      paper[i] = (6.0F * start[i] + 5.0F * estimate) / 11.0F;  // staleness 3, 5 peers
      moved[i] = anchor[i] + q_mean[i];
    }
    const Bytes own_bytes = sent_by(wire(), own, Floats(elements));
    const Bytes back = sent_by(wire(), mean, Floats(elements));
    Floats x = start;
    Floats a = anchor;
    merge_corrected({wire(), own_bytes, back, x, a}, kernels());
    ASSERT_EQ(bits_of(x), bits_of(corrected));
    ASSERT_EQ(bits_of(a), bits_of(moved));
    x = start;
    a = anchor;
    merge_paper({wire(), own_bytes, back, x, a}, {.sent = sent, .staleness = 3, .peers = 5},
                kernels());
    ASSERT_EQ(bits_of(x), bits_of(paper));
    ASSERT_EQ(bits_of(a), bits_of(moved));
  }
}

// In fp32 within a block, 16 sums side by side; in double from block to block.
TEST_P(EveryVersion, MeasuresTheDistanceAsDefined) {
  for (const std::size_t blocks : {1U, 2U, 33U}) {
    const std::size_t elements = blocks * kBlockElements;
    const Floats own = test::hard_numbers(elements, kLargest, random);
    const Floats mean = test::hard_numbers(elements, kLargest, random);
    const Floats q_own = test::plain_rounded(wire(), own);
    const Floats q_mean = test::plain_rounded(wire(), mean);
    double squares = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      Floats sums(16);
      for (std::size_t i = 0; i < kBlockElements; ++i) {
        const std::size_t place = block * kBlockElements + i;
        const float difference = q_mean[place] - q_own[place];
        const float square = difference * difference;
        sums[i % 16] += square;
      }
      squares += std::accumulate(sums.begin(), sums.end(), 0.0);
    }
    EXPECT_EQ(distance(wire(), sent_by(wire(), own, Floats(elements)),
                       sent_by(wire(), mean, Floats(elements)), kernels()),
              std::sqrt(squares / static_cast<double>(elements)));
  }
  EXPECT_EQ(distance(wire(), {}, {}, kernels()), 0);
}

// Every difference is 3 or 4 in turn: the root of (9 + 16) / 2.
TEST(Distance, IsTheRootOfTheMeanSquare) {
  Floats mean(512, 3);
  for (std::size_t i = 0; i < mean.size(); i += 2) mean[i] = -4;
  const Bytes own = sent_by(Wire::kFp32, Floats(512), Floats(512));
  const Bytes back = sent_by(Wire::kFp32, mean, Floats(512));
  EXPECT_DOUBLE_EQ(distance(Wire::kFp32, own, back), std::sqrt(12.5));
  EXPECT_EQ(distance(Wire::kFp32, back, back), 0);
}

TEST_P(EveryVersion, AMeanThatLeavesTheRangeIsRefused) {
  const float large = wire() == Wire::kFp16 ? 65504.0F : 0x1.fep127F;
  Floats values(3 * kBlockElements);
  values.at(600) = large;
  const Bytes sent = sent_by(wire(), values, Floats(values.size()));
  const std::vector<Difference> differences = {{sent, 1}, {sent, 1}};
  Floats residual(values.size());
  Bytes back(sent.size());
  EXPECT_FALSE(average(wire(), differences, residual, back, {}, kernels()));
  EXPECT_TRUE(average(wire(), std::span(differences).first(1), residual, back, {}, kernels()));
}

TEST(Exchange, SpansThatDoNotFitAreABug) {
  Floats values(512);
  Floats short_anchor(256);
  Bytes bytes(520);
  EXPECT_THROW(merge_corrected({Wire::kInt8, bytes, bytes, values, short_anchor}),
               std::logic_error);
  EXPECT_THROW((void)average(Wire::kInt8, {}, values, bytes), std::logic_error);
  EXPECT_THROW((void)distance(Wire::kInt8, bytes, std::span(bytes).first(260)), std::logic_error);
}

TEST(Exchange, TheResidualStaysZeroInFp32) {
  std::mt19937 random(4);
  Nodes nodes(Wire::kFp32, {0.25F, 0.5F, 0.25F}, test::normal_numbers(512, 1, random));
  for (int round = 0; round < 5; ++round) {
    for (Floats& own : nodes.parameters) own = test::normal_numbers(512, 1, random);
    nodes.exchange();
    EXPECT_EQ(bits_of(nodes.residual), bits_of(Floats(512)));
  }
}

// What the mean loses to rounding is in the residual, so their sum is what stays.
TEST(Corrected, LeavesTheWeightedMeanUnchanged) {
  std::mt19937 random(5);
  for (const Wire wire : kAllWires) {
    if (!test::shrinks(wire)) continue;
    Nodes nodes(wire, {0.5F, 0.125F, 0.375F}, test::normal_numbers(768, 1, random));
    for (int round = 0; round < 20; ++round) {
      for (Floats& own : nodes.parameters) {
        const Floats step = test::normal_numbers(768, 0.1F, random);
        for (std::size_t i = 0; i < own.size(); ++i) own[i] += step[i];
      }
      std::vector<double> before(768);
      for (std::size_t i = 0; i < 768; ++i) before[i] = nodes.mean(i) + double{nodes.residual[i]};
      nodes.exchange();
      for (std::size_t i = 0; i < 768; ++i) {
        ASSERT_NEAR(nodes.mean(i) + double{nodes.residual[i]}, before[i], 2e-6) << name_of(wire);
      }
    }
  }
}

// Identical nodes with a constant gradient, one round of skip steps: where the merge comes
// `staleness` steps after the start, the parameters are what `rule` makes of them.
template <typename Rule>
float progress_of_a_round(int peers, int skip, int staleness, const Rule& rule) {
  constexpr float kStep = 0x1p-6F;
  const auto shares = static_cast<std::size_t>(peers);
  Nodes nodes(Wire::kFp32, Floats(shares, 1.0F / static_cast<float>(peers)), Floats(256, 1));
  const auto step = [&] {
    for (Floats& own : nodes.parameters) {
      for (float& x : own) x -= kStep;
    }
  };
  step();
  nodes.start();
  const std::vector<Floats> sent = nodes.parameters;
  for (int i = 1; i < skip; ++i) {
    step();
    if (i == staleness) {
      nodes.merge([&](const Merge& merge, std::size_t n) { rule(merge, sent[n]); });
    }
  }
  for (const Floats& own : nodes.parameters) EXPECT_EQ(own, nodes.parameters.front());
  return (1 - nodes.parameters.front().front()) / (kStep * static_cast<float>(skip));
}

TEST(Corrected, KeepsAllProgressOfEqualNodes) {
  const auto rule = [](const Merge& merge, const Floats&) { merge_corrected(merge); };
  EXPECT_EQ(progress_of_a_round(2, 4, 1, rule), 1);
  EXPECT_EQ(progress_of_a_round(4, 8, 2, rule), 1);
}

TEST(Paper, KeepsExactlyItsFractionOfTheProgressOfEqualNodes) {
  const auto fraction = [](int peers, int skip, int staleness) {
    const auto rule = [&](const Merge& merge, const Floats& sent) {
      merge_paper(merge, {.sent = sent, .staleness = staleness, .peers = peers});
    };
    return progress_of_a_round(peers, skip, staleness, rule);
  };
  // f = 1 - S P / (skip (2 S + P)); the first two are exact in fp32.
  EXPECT_EQ(fraction(2, 4, 1), 1 - 2.0F / (4 * 4));
  EXPECT_EQ(fraction(4, 8, 2), 1 - 8.0F / (8 * 8));
  EXPECT_NEAR(fraction(4, 4, 1), 1 - 4.0F / (4 * 6), 1e-5);
  EXPECT_NEAR(fraction(64, 4, 1), 1 - 64.0F / (4 * 66), 1e-5);
}

float scale_of(Wire wire, const Bytes& encoded, std::size_t block) {
  float scale = 0;
  std::memcpy(&scale, encoded.data() + encoded_bytes(wire, block * kBlockElements), sizeof scale);
  return scale;
}

void expect_sum_within_two_quanta(Wire wire) {
  constexpr std::size_t kElements = 512;
  std::mt19937 random(6);
  Nodes nodes(wire, {0.5F, 0.25F, 0.25F}, Floats(kElements));
  std::vector<double> truth(kElements);
  for (int round = 0; round < 1000; ++round) {
    for (std::size_t n = 0; n < nodes.weights.size(); ++n) {
      const Floats step = test::normal_numbers(kElements, 0.01F, random);
      for (std::size_t i = 0; i < kElements; ++i) {
        nodes.parameters[n][i] += step[i];
        truth[i] += double{nodes.weights[n]} * double{step[i]};
      }
    }
    nodes.exchange();
    for (std::size_t i = 0; i < kElements; ++i) {
      float quantum = scale_of(wire, nodes.back, i / kBlockElements);
      for (const Bytes& own : nodes.sent) {
        quantum = std::max(quantum, scale_of(wire, own, i / kBlockElements));
      }
      ASSERT_LE(std::abs(double{nodes.anchor[i]} - truth[i]), 2 * quantum)
          << name_of(wire) << " " << round << " " << i;
    }
  }
}

TEST(Exchange, TransmittedSumStaysWithinTwoQuantaOfTheTrueOne) {
  for (const Wire wire : kAllWires) {
    const bool scaled = wire == Wire::kInt8 || wire == Wire::kInt4 || qsgd_bits(wire) != 0;
    if (scaled && test::shrinks(wire)) expect_sum_within_two_quanta(wire);
  }
}

// Sent as parameters, steps of 1e-3 would be rounded away in 16 bits; next to a neighbour that
// takes steps of 1, they are far below int8's quantum.
TEST(Exchange, AWeightOfOneMovesBySmallSteps) {
  for (const Wire wire : {Wire::kFp32, Wire::kBf16, Wire::kFp16, Wire::kInt8}) {
    Nodes nodes(wire, {0.5F, 0.5F}, Floats(256, 1));
    for (int round = 0; round < 1000; ++round) {
      nodes.parameters[0].at(0) -= 1e-3F;  // node 0 alone: the other one learns it
      nodes.parameters[0].at(1) += round % 2 == 0 ? 1.0F : -1.0F;
      nodes.exchange();
    }
    const double quantum = 2.0 / 127;
    for (const Floats& own : nodes.parameters) EXPECT_NEAR(own.at(0), 0.5, quantum);
    EXPECT_NEAR(nodes.anchor.at(0), 0.5, quantum);
  }
}

}  // namespace
}  // namespace daso
