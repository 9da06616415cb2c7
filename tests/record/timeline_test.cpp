// SPDX-License-Identifier: Apache-2.0
#include "daso/base/timeline.h"

#include <gtest/gtest.h>

#include <thread>

namespace daso::test {
namespace {

TEST(Timeline, KeepsNothingUnlessItIsAskedTo) {
  Timeline timeline;
  double total = 0;
  { const Span span(timeline, Track::kTraining, "forward", 1); }
  { const TimedSpan span(timeline, Track::kData, "data", 1, total); }
  EXPECT_TRUE(timeline.events().empty());
  EXPECT_GT(total, 0);  // totals count all the same
}

TEST(Timeline, KeepsWhatThreadsAddInTheOrderInWhichTheyEnd) {
  Timeline timeline;
  timeline.record(true);
  {
    const Span outer(timeline, Track::kTraining, "step", 7);
    std::jthread([&] { const Span inner(timeline, Track::kExchange, "send", 3); });
  }
  const std::vector<Event> events = timeline.events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_STREQ(events[0].name, "send");
  EXPECT_EQ(events[0].track, Track::kExchange);
  EXPECT_EQ(events[0].number, 3);
  EXPECT_STREQ(events[1].name, "step");
  EXPECT_LE(events[1].begin, events[0].begin);
  EXPECT_LE(events[0].end, events[1].end);
}

TEST(Timeline, AnEventThatBeganUnrecordedIsLeftOut) {
  Timeline timeline;
  {
    const Span span(timeline, Track::kTraining, "step", 1);
    timeline.record(true);
  }
  EXPECT_TRUE(timeline.events().empty());
}

}  // namespace
}  // namespace daso::test
