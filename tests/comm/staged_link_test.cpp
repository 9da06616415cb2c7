// SPDX-License-Identifier: Apache-2.0
// What a link of devices does beyond being a link (node_link_test.cpp): with a stand-in for a GPU.
#include "daso/comm/link/staged_link.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/comm/link/nccl_module.h"
#include "late_lane.h"
#include "run_ranks.h"

namespace daso::test {
namespace {

constexpr Seconds kLimit{20};

StagedLink staged_link(World& world, const LateLaneOptions& options = {}) {
  return {world.node_link("test"),
          at::kCPU,
          late_lane_with(options),
          {.text = "node 0 link test"},
          world.guard()};
}

TEST(StagedLink, CopiesOnlyWhatTheOtherSideNeeds) {
  run_ranks({.ranks = 2}, [](World& world) {
    std::atomic<std::int64_t> bytes = 0;
    StagedLink link = staged_link(world, {.bytes = &bytes});
    const at::Tensor tensor = at::full({1000}, static_cast<float>(world.rank()));
    link.reduce(tensor, {.slices = 2}, kLimit);
    EXPECT_EQ(bytes, 4000 + 2000);  // all down, the own half up
    link.gather(tensor, {.slices = 2}, kLimit);
    EXPECT_EQ(bytes, 6000 + 2000 + 2000);  // the own half down, the other one up
    EXPECT_TRUE(at::equal(tensor, at::full({1000}, 0.5F)));
    link.gather(tensor, {.slices = 1, .first = 1}, kLimit);  // rank 1 gives, rank 0 takes
    EXPECT_EQ(bytes, 10000 + 4000);
  });
}

TEST(StagedLink, AReductionLeavesTheOtherSlicesOfTheDeviceAlone) {
  run_ranks({.ranks = 3}, [](World& world) {
    StagedLink link = staged_link(world);
    const at::Tensor tensor = at::full({9}, static_cast<float>(world.rank()));
    link.reduce(tensor, {.slices = 3}, kLimit);
    const at::Tensor expected = at::full({9}, static_cast<float>(world.rank()));
    expected.slice(0, 3 * world.rank(), 3 * world.rank() + 3).fill_(1.0F);  // the mean of 0, 1, 2
    EXPECT_TRUE(at::equal(tensor, expected));
  });
}

TEST(StagedLink, ADeviceThatHangsIsNamedWhenTheLimitIsOver) {
  std::atomic<bool> hangs = true;
  const auto errors = run_places({.ranks = 2}, [&](const WorldOptions& place) {
    World world = World::join(place);
    const bool own = world.rank() == 1;
    StagedLink link = staged_link(world, {.hangs = own ? &hangs : nullptr});
    try {
      link.reduce(at::ones({10}), {.slices = 2}, own ? Seconds(0.3) : kLimit);
    } catch (...) {
      if (own) hangs = false;  // so that its thread can end
      throw;
    }
  });
  for (const auto& error : errors) {
    EXPECT_EQ(exit_code_of(error), kExitPeer);
    EXPECT_NE(text_of(error).find("reduce(40 bytes in 10 rows, 2 slices from local rank 0) #0 in "
                                  "group 'node 0 link test'"),
              std::string::npos)
        << text_of(error);
    EXPECT_NE(text_of(error).find("not done within 0.3 s"), std::string::npos) << text_of(error);
  }
}

// Rank 1 ends, rank 2 finds out, and rank 0 hears of it while it waits for its device.
TEST(StagedLink, BadNewsReachesARankThatWaitsForItsDevice) {
  std::atomic<bool> hangs = true;
  const auto errors = run_places({.ranks = 3}, [&](const WorldOptions& place) {
    World world = World::join(place);
    const bool own = world.rank() == 0;
    StagedLink link = staged_link(world, {.hangs = own ? &hangs : nullptr});
    if (world.rank() == 1) return;
    const auto start = Clock::now();
    try {
      link.reduce(at::ones({10}), {.slices = 3}, kLimit);
    } catch (...) {
      EXPECT_LT(since(start).count(), 5.0);
      if (own) hangs = false;
      throw;
    }
  });
  for (const std::size_t rank : {0UL, 2UL}) {
    EXPECT_EQ(exit_code_of(errors.at(rank)), kExitPeer);
    EXPECT_NE(text_of(errors.at(rank)).find("rank 1 (a on host "), std::string::npos)
        << text_of(errors.at(rank));
  }
}

TEST(StagedLink, ATensorElsewhereIsRefused) {
  run_ranks({.ranks = 2}, [](World& world) {
    StagedLink link = staged_link(world);
    const at::Tensor elsewhere = at::empty({4}, at::TensorOptions(at::kFloat).device(at::kMeta));
    EXPECT_THROW(link.reduce(elsewhere, {}, kLimit), ConfigError);
    EXPECT_THROW(static_cast<void>(world.everyone().all_reduce(elsewhere, Reduce::kSum)),
                 ConfigError);
  });
}

NcclSeat seat(const std::string& gpu, const std::string& version, bool shares_gpu = false) {
  return {.gpu = gpu, .version = version, .shares_gpu = shares_gpu};
}

TEST(NcclChoice, TakesRanksThatEachHaveAGpu) {
  EXPECT_TRUE(nccl_takes({seat("0000:01:00", "2.28.9"), seat("0000:02:00", "2.28.9")}));
}

TEST(NcclChoice, TakesRanksOnOneGpuOnlyIfAllMayShareIt) {
  EXPECT_FALSE(nccl_takes({seat("0000:01:00", "2.28.9"), seat("0000:01:00", "2.28.9")}));
  EXPECT_TRUE(nccl_takes({seat("0000:01:00", "2.32.3", true), seat("0000:01:00", "2.32.3", true)}));
  EXPECT_FALSE(
      nccl_takes({seat("0000:01:00", "2.32.3", true), seat("0000:01:00", "2.32.3", false)}));
}

TEST(NcclChoice, TakesNobodyIfOneHasNoneOrAnother) {
  EXPECT_FALSE(nccl_takes({seat("0000:01:00", "2.28.9"), seat("", "")}));
  EXPECT_FALSE(nccl_takes({seat("", ""), seat("", "")}));
  EXPECT_FALSE(nccl_takes({seat("0000:01:00", "2.28.9"), seat("0000:02:00", "2.32.3")}));
}

}  // namespace
}  // namespace daso::test
