// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/gather_text.h"

#include <gtest/gtest.h>

#include "run_ranks.h"

namespace daso::test {
namespace {

// Of three ranks the first has nothing to say and the last more than fits in one piece. The letters
// repeat after 23, which does not divide the 16 MiB / 3 of a piece: one out of place is seen.
std::string text_of_rank(int rank) {
  if (rank == 0) return "";
  if (rank == 1) return "short";
  std::string text(std::size_t{6} << 20, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

std::vector<std::string> all_texts() { return {text_of_rank(0), text_of_rank(1), text_of_rank(2)}; }

// Compared in the tests by ==, since a failure is not to print megabytes.
TEST(GatherText, GivesAllRanksAllTextsInRankOrder) {
  run_ranks({.ranks = 3}, [](World& world) {
    const auto texts = gather_text(world.everyone(), text_of_rank(world.rank()), world.limit());
    EXPECT_TRUE(texts == all_texts());
  });
}

TEST(GatherText, OnFirstGivesThemToRankZeroAlone) {
  run_ranks({.ranks = 3}, [](World& world) {
    const auto texts =
        gather_text_on_first(world.everyone(), text_of_rank(world.rank()), world.limit());
    if (world.rank() == 0) {
      EXPECT_TRUE(texts == all_texts());
    } else {
      EXPECT_TRUE(texts.empty());
    }
  });
}

TEST(GatherText, GivesARankThatIsAloneItsOwn) {
  World world = World::alone();
  const std::vector<std::string> own = {"alone"};
  EXPECT_EQ(gather_text(world.everyone(), own.front(), world.limit()), own);
  EXPECT_EQ(gather_text_on_first(world.everyone(), own.front(), world.limit()), own);
}

}  // namespace
}  // namespace daso::test
