// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "numbers.h"

namespace daso {
namespace {

using test::Floats;

TEST(Digest, SameOnEveryInstructionSet) {
  std::mt19937 random(1);
  for (const std::size_t elements :
       {0U, 1U, 63U, 64U, 65U, 256U, 1000U, 4095U, 4096U, 4097U, 8192U, 12345U}) {
    const Floats values = test::normal_numbers(elements, 1, random);
    for (const InstructionSet set : supported_instruction_sets()) {
      EXPECT_EQ(digest_of(values, cpu_kernels(set)),
                digest_of(values, cpu_kernels(InstructionSet::kScalar)))
          << elements;
    }
  }
}

TEST(Digest, EveryFlippedBitChangesIt) {
  std::mt19937 random(2);
  Floats values = test::normal_numbers(300, 1, random);
  const std::uint64_t right = digest_of(values);
  for (float& value : values) {
    const float before = value;
    for (unsigned bit = 0; bit < 32; ++bit) {
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(before) ^ (1U << bit));
      EXPECT_NE(digest_of(values), right) << bit;
    }
    value = before;
  }
}

TEST(Digest, EveryChangedElementOfSeveralBlocksChangesIt) {
  Floats values(3 * 4096 + 100, 1);
  std::set<std::uint64_t> seen = {digest_of(values)};
  for (float& value : values) {
    value = 2;
    EXPECT_TRUE(seen.insert(digest_of(values)).second);
    value = 1;
  }
}

// The same change at the same place of two blocks: it must not cancel in what combines them.
TEST(Digest, EqualChangesOfTwoBlocksChangeIt) {
  Floats values(4 * 4096, 1.5F);
  std::set<std::uint64_t> seen = {digest_of(values)};
  for (std::size_t place = 0; place < 4096; place += 7) {
    for (std::size_t block = 1; block < 4; ++block) {
      values[place] = values[block * 4096 + place] = -1.5F;
      EXPECT_TRUE(seen.insert(digest_of(values)).second) << place << " " << block;
      values[place] = values[block * 4096 + place] = 1.5F;
    }
  }
}

TEST(Digest, PlacesOfWholeBlocksCount) {
  Floats values(3 * 4096);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 4096);
  const std::uint64_t right = digest_of(values);
  std::swap_ranges(values.begin(), values.begin() + 4096, values.begin() + 4096);
  EXPECT_NE(digest_of(values), right);
}

// The highest bit is the one that a product spreads least: two flips must not cancel.
TEST(Digest, TwoFlippedSignsChangeIt) {
  Floats values(1024, 1.5F);
  std::set<std::uint64_t> seen = {digest_of(values)};
  for (std::size_t other = 1; other < values.size(); ++other) {
    values[0] = values[other] = -1.5F;
    EXPECT_TRUE(seen.insert(digest_of(values)).second) << other;
    values[0] = values[other] = 1.5F;
  }
}

TEST(Digest, OrderCounts) {
  Floats values(512);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::set<std::uint64_t> seen = {digest_of(values)};
  for (std::size_t other = 1; other < values.size(); ++other) {
    std::swap(values[0], values[other]);
    EXPECT_TRUE(seen.insert(digest_of(values)).second) << other;
    std::swap(values[0], values[other]);
  }
}

TEST(Digest, NumberOfElementsCounts) {
  const Floats zeros(300);
  std::set<std::uint64_t> seen;
  for (std::size_t elements = 0; elements <= zeros.size(); ++elements) {
    EXPECT_TRUE(seen.insert(digest_of(std::span(zeros).first(elements))).second) << elements;
  }
}

TEST(Finite, IsWhatHasNeitherNanNorInfinityInAnyPlace) {
  for (const InstructionSet set : supported_instruction_sets()) {
    const Kernels& kernels = cpu_kernels(set);
    EXPECT_TRUE(all_finite({}, kernels));
    Floats values(37, std::numeric_limits<float>::max());
    values[3] = std::numeric_limits<float>::denorm_min();
    EXPECT_TRUE(all_finite(values, kernels));
    for (float& value : values) {
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
            -std::numeric_limits<float>::infinity()}) {
        const float before = std::exchange(value, bad);
        EXPECT_FALSE(all_finite(values, kernels)) << name_of(set);
        value = before;
      }
    }
  }
}

}  // namespace
}  // namespace daso
