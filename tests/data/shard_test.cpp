// SPDX-License-Identifier: Apache-2.0
#include "daso/data/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "daso/base/error.h"
#include "daso/base/random.h"

namespace daso {
namespace {

using Indices = std::vector<std::int64_t>;

// Many sizes, small ones and such that divide and do not.
std::vector<ShardOptions> many_options() {
  RandomStream random{5};
  std::vector<ShardOptions> all;
  while (all.size() < 300) {
    const ShardOptions options{.examples = 1 + static_cast<std::int64_t>(random.below(200)),
                               .ranks = 1 + static_cast<int>(random.below(8)),
                               .batch_size = 1 + static_cast<int>(random.below(9)),
                               .uneven = random.below(2) == 0 ? Uneven::kDrop : Uneven::kWrap,
                               .seed = random.next()};
    const bool empty = options.uneven == Uneven::kDrop &&
                       options.examples < std::int64_t{options.ranks} * options.batch_size;
    if (!empty) all.push_back(options);
  }
  return all;
}

// How often each example occurs on all ranks together.
std::map<std::int64_t, int> occurrences(const ShardOptions& options, int epoch) {
  std::map<std::int64_t, int> counts;
  for (int rank = 0; rank < options.ranks; ++rank) {
    for (const std::int64_t index : shard_of(options, epoch, rank)) ++counts[index];
  }
  return counts;
}

TEST(Random, IsSplitmix64) {
  // From the program that the authors published, for the state 1234567.
  RandomStream random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317U);
  EXPECT_EQ(random.next(), 3203168211198807973U);
  EXPECT_EQ(random.next(), 9817491932198370423U);
}

TEST(Random, IsUniformBelowABound) {
  RandomStream random{3};
  std::array<int, 6> counts{};
  for (int i = 0; i < 60000; ++i) ++counts[random.below(6)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * 91);  // five standard deviations
  // A bound above 2^63: half of all numbers must be drawn again, or small ones come twice as often.
  int low = 0;
  const std::uint64_t bound = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  for (int i = 0; i < 30000; ++i) low += random.below(bound) < bound / 3 ? 1 : 0;
  EXPECT_NEAR(low, 10000, 5 * 82);
}

TEST(Shard, RanksTakeTheSameNumberOfSteps) {
  for (const ShardOptions& options : many_options()) {
    const std::int64_t together = std::int64_t{options.ranks} * options.batch_size;
    const std::int64_t steps = options.uneven == Uneven::kDrop
                                   ? options.examples / together
                                   : (options.examples + together - 1) / together;
    EXPECT_EQ(batches_of(options), steps);
    for (int rank = 0; rank < options.ranks; ++rank) {
      EXPECT_EQ(std::ssize(shard_of(options, 2, rank)), steps * options.batch_size);
    }
  }
}

TEST(Shard, RanksNeverShareAnExampleWhenTheRestIsDropped) {
  for (const ShardOptions& options : many_options()) {
    if (options.uneven != Uneven::kDrop) continue;
    const auto counts = occurrences(options, 1);
    EXPECT_EQ(std::ssize(counts), batches_of(options) * options.ranks * options.batch_size);
    for (const auto& [index, count] : counts) {
      EXPECT_EQ(count, 1);
      EXPECT_TRUE(index >= 0 && index < options.examples);
    }
  }
}

TEST(Shard, RanksTogetherSeeEverythingWhenTheEpochIsFilledUp) {
  for (const ShardOptions& options : many_options()) {
    if (options.uneven != Uneven::kWrap) continue;
    const auto counts = occurrences(options, 1);
    EXPECT_EQ(std::ssize(counts), options.examples);
    // Filled up evenly: how often two examples occur differs by one at most.
    const auto [least, most] =
        std::ranges::minmax_element(counts, {}, [](const auto& entry) { return entry.second; });
    EXPECT_LE(most->second - least->second, 1);
  }
}

TEST(Shard, EpochsAndSeedsDiffer) {
  const ShardOptions options{.examples = 100, .ranks = 2, .batch_size = 5, .seed = 1};
  const Indices first = shard_of(options, 0, 0);
  EXPECT_NE(first, shard_of(options, 1, 0));
  ShardOptions other = options;
  other.seed = 2;
  EXPECT_NE(first, shard_of(other, 0, 0));
  EXPECT_EQ(first, shard_of(options, 0, 0));
}

TEST(Shard, LeavesOutOtherExamplesInOtherEpochs) {
  const ShardOptions options{.examples = 19, .ranks = 2, .batch_size = 5};
  std::set<std::int64_t> seen;
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (const auto& [index, count] : occurrences(options, epoch)) seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 19U);  // of which each epoch uses 10
}

TEST(Shard, StepsAreThoseOfOneProcessWithTheWholeBatch) {
  const ShardOptions four{.examples = 97, .ranks = 4, .batch_size = 3, .seed = 9};
  const ShardOptions one{.examples = 97, .ranks = 1, .batch_size = 12, .seed = 9};
  const Indices whole = shard_of(one, 3, 0);
  for (int rank = 0; rank < 4; ++rank) {
    const Indices part = shard_of(four, 3, rank);
    for (std::int64_t batch = 0; batch < batches_of(four); ++batch) {
      for (std::int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(part.at(static_cast<std::size_t>(batch * 3 + i)),
                  whole.at(static_cast<std::size_t>(batch * 12 + std::int64_t{rank} * 3 + i)));
      }
    }
  }
}

TEST(Shard, EveryOrderIsEquallyLikely) {
  std::map<Indices, int> counts;
  const ShardOptions options{.examples = 4, .ranks = 1, .batch_size = 4, .seed = 17};
  for (int epoch = 0; epoch < 24000; ++epoch) ++counts[shard_of(options, epoch, 0)];
  EXPECT_EQ(counts.size(), 24U);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 5 * 31);
}

TEST(Shard, RefusesAnEpochWithoutAStep) {
  EXPECT_THROW(validate({.examples = 7, .ranks = 2, .batch_size = 4}), ConfigError);
  EXPECT_NO_THROW(validate({.examples = 8, .ranks = 2, .batch_size = 4}));
  EXPECT_EQ(batches_of({.examples = 1, .ranks = 2, .batch_size = 4, .uneven = Uneven::kWrap}), 1);
  EXPECT_THROW(validate({.examples = 0, .uneven = Uneven::kWrap}), ConfigError);
  EXPECT_THROW(validate({.examples = 8, .ranks = 0}), ConfigError);
  EXPECT_THROW(validate({.examples = 8, .batch_size = 0}), ConfigError);
}

}  // namespace
}  // namespace daso
