// SPDX-License-Identifier: Apache-2.0
#include "daso/record/duration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace daso {
namespace {

TEST(Duration, ShortOnesHaveTheUnitThatSuitsThem) {
  EXPECT_EQ(short_duration(0), "0 s");
  EXPECT_EQ(short_duration(59.4), "59 s");
  EXPECT_EQ(short_duration(59.6), "1:00 min");
  EXPECT_EQ(short_duration(375), "6:15 min");
  EXPECT_EQ(short_duration(3599.4), "59:59 min");
  EXPECT_EQ(short_duration(3599.6), "1:00 h");
  EXPECT_EQ(short_duration(100 * 3600 + 5 * 60 + 59), "100:05 h");
}

TEST(Duration, WordsBeginAtTwoMinutes) {
  EXPECT_EQ(duration_text(119), "");
  EXPECT_EQ(duration_text(120), "2 min 0 s");
  EXPECT_EQ(duration_text(252), "4 min 12 s");
  EXPECT_EQ(duration_text(3599.6), "1 h 0 min");
  EXPECT_EQ(duration_text(11100), "3 h 5 min");
}

// They come from files that anybody may have written.
TEST(Duration, AnyNumberHasOne) {
  for (const double strange : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(short_duration(strange), "0 s");
    EXPECT_EQ(duration_text(strange), "");
  }
  EXPECT_EQ(short_duration(1e300), short_duration(1e15));
  EXPECT_EQ(duration_text(1e300), duration_text(1e15));
}

}  // namespace
}  // namespace daso
