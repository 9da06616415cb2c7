// SPDX-License-Identifier: Apache-2.0
#include "bench/operations.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "run_ranks.h"

namespace daso::bench {
namespace {

constexpr Seconds kLimit{20};

TEST(BusBandwidth, FactorsAreThoseOfNcclTests) {
  for (const int n : {1, 2, 3, 4, 8, 100}) {
    const double all_but_one = static_cast<double>(n - 1) / n;
    EXPECT_DOUBLE_EQ(bench_operation("all_reduce").bus_factor(n), 2 * all_but_one);
    EXPECT_DOUBLE_EQ(bench_operation("reduce_scatter").bus_factor(n), all_but_one);
    EXPECT_DOUBLE_EQ(bench_operation("all_gather").bus_factor(n), all_but_one);
    EXPECT_DOUBLE_EQ(bench_operation("all_to_all").bus_factor(n), all_but_one);
    EXPECT_DOUBLE_EQ(bench_operation("broadcast").bus_factor(n), 1);
    EXPECT_DOUBLE_EQ(bench_operation("send_receive").bus_factor(n), 1);
  }
}

TEST(Pattern, PartsOfAllRanksAddUpToTheTotal) {
  for (const int ranks : {1, 2, 3, 300}) {
    for (std::int64_t i = 0; i < 1000; ++i) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        sum += Pattern{Pattern::Kind::kPart, rank, ranks}.at(i);
      }
      ASSERT_EQ(sum, (Pattern{.ranks = ranks}.at(i)));
      ASSERT_LE(sum, 127);  // exact in int8
    }
  }
}

TEST(Pattern, RepeatsAfterItsPeriod) {
  for (const auto kind : {Pattern::Kind::kTotal, Pattern::Kind::kPart, Pattern::Kind::kOwn}) {
    const Pattern pattern{.kind = kind, .rank = 1, .ranks = 3};
    for (std::int64_t i = 0; i < pattern.period(); ++i) {
      ASSERT_EQ(pattern.at(i), pattern.at(i + pattern.period()));
    }
  }
}

// Longer than a stretch, and beginning in the middle of a period.
TEST(Pattern, FillsWholeTensorsFromAnyOffset) {
  constexpr std::int64_t kElements = 600000;
  constexpr std::int64_t kOffset = 123;
  const Pattern pattern{.ranks = 3};
  const at::Tensor tensor = at::zeros({kElements}, at::kInt);
  fill(tensor, pattern, kOffset);
  const int* values = tensor.const_data_ptr<int>();
  for (std::int64_t i = 0; i < kElements; ++i) ASSERT_EQ(values[i], pattern.at(kOffset + i));
  EXPECT_TRUE(matches(tensor, pattern, kOffset));
  EXPECT_FALSE(matches(tensor, pattern, kOffset + 1));
  tensor[kElements - 1] += 1;
  EXPECT_FALSE(matches(tensor, pattern, kOffset));
}

// Every operation, on 3 ranks and a size that 3 does not divide.
TEST(BenchOperations, VerdictsTellRightFromWrong) {
  constexpr std::int64_t kElements = 1000;
  test::run_ranks({.ranks = 3}, [](World& world) {
    Communicator& ranks = world.everyone();
    for (const BenchOperation& operation : bench_operations()) {
      for (const std::string& type : type_names()) {
        const Buffers buffers = operation.allocate(ranks, kElements, type_of(type));
        operation.fill(ranks, kElements, buffers);
        EXPECT_FALSE(operation.right(ranks, kElements, buffers) &&
                     !(ranks.rank() == 0 && std::string(operation.name) == "broadcast"))
            << operation.name << " must be wrong before it has happened";
        operation.perform(ranks, buffers, kLimit);
        EXPECT_TRUE(operation.right(ranks, kElements, buffers)) << operation.name << " " << type;
        buffers.output[buffers.output.numel() - 1] += 1;
        EXPECT_FALSE(operation.right(ranks, kElements, buffers)) << operation.name << " " << type;
      }
    }
  });
}

TEST(BenchOperations, WorkInAWorldOfOneAndOnNothing) {
  World world = World::alone();
  Communicator& ranks = world.everyone();
  for (const BenchOperation& operation : bench_operations()) {
    for (const std::int64_t elements : {0, 1, 5}) {
      const Buffers buffers = operation.allocate(ranks, elements, at::kFloat);
      operation.fill(ranks, elements, buffers);
      operation.perform(ranks, buffers, kLimit);
      EXPECT_TRUE(operation.right(ranks, elements, buffers)) << operation.name;
    }
  }
}

}  // namespace
}  // namespace daso::bench
