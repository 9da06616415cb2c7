// SPDX-License-Identifier: Apache-2.0
#include "daso/run/rank_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_ranks.h"

namespace daso::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Sharing, IsSaidOfMachinesWhoseRanksHaveTheSameGpu) {
  EXPECT_THAT(sharing_of({{"a", "1"}, {"a", "2"}, {"b", "1"}, {"b", "1"}}),
              ElementsAre("2 ranks of b share 1 GPU"));
  EXPECT_THAT(sharing_of({{"a", "1"}, {"a", "2"}, {"a", "1"}, {"b", "1"}, {"b", "1"}}),
              ElementsAre("3 ranks of a share 2 GPUs", "2 ranks of b share 1 GPU"));
}

// Each sees one GPU, under the same number: their addresses tell them apart.
TEST(Sharing, IsNotSaidWhereEachHasItsOwn) {
  EXPECT_THAT(sharing_of({{"a", "1"}, {"a", "2"}, {"b", "1"}}), IsEmpty());
}

TEST(Sharing, RanksOnTheCpuShareNothing) {
  EXPECT_THAT(sharing_of({{"a", ""}, {"a", ""}, {"b", "1"}}), IsEmpty());
}

TEST(RankDevice, IsTheCpuWhereThatIsAskedFor) {
  run_ranks({.ranks = 2}, [](World& world) {
    const DeviceFound found = rank_device(world, {.kind = DeviceChoice::Kind::kCpu});
    EXPECT_TRUE(found.device.is_cpu());
    EXPECT_EQ(found.note, "");
  });
}

}  // namespace
}  // namespace daso::test
