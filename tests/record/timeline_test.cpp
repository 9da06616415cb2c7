// SPDX-License-Identifier: Apache-2.0
#include "daso/base/timeline.h"

#include <gtest/gtest.h>

#include <thread>

#include "daso/record/trace.h"
#include "run_ranks.h"

namespace daso::test {
namespace {

TEST(Timeline, KeepsNothingUnlessItIsAskedTo) {
  Timeline timeline;
  { const Span span(timeline, Track::kTraining, "forward", 1); }
  { const TimedSpan span(timeline, Track::kData, "data", 1); }
  EXPECT_TRUE(timeline.events().empty());
}

// The clock is read again and again instead of sleeping, so that the spans inside are not empty.
void pass_time() {
  const auto begin = Clock::now();
  while (since(begin) < Seconds(0.002)) {
  }
}

TEST(Timeline, CountsTimedSpansRecordedOrNot) {
  Timeline timeline;
  {
    const TimedSpan span(timeline, Track::kData, "data", 1);
    pass_time();
  }
  const double first = timeline.counted(Track::kData);
  EXPECT_GE(first, 0.002);
  timeline.record(true);
  {
    const TimedSpan span(timeline, Track::kData, "data", 2);
    pass_time();
  }
  EXPECT_GE(timeline.counted(Track::kData), first + 0.002);
  EXPECT_EQ(timeline.counted(Track::kWaiting), 0);
}

TEST(Timeline, NoSecondCountsTwice) {
  Timeline timeline;
  timeline.record(true);
  {
    const TimedSpan outer(timeline, Track::kEvaluation, "evaluation", 1);
    pass_time();
    {
      const TimedSpan inner(timeline, Track::kCommunicating, "scores", 1);
      pass_time();
    }
    {
      const TimedSpan inner(timeline, Track::kCheckpoint, "take", 1);
      pass_time();
      {
        const TimedSpan innermost(timeline, Track::kWaiting, "exchange", 1);
        pass_time();
      }
    }
  }
  const std::vector<Event> events = timeline.events();
  const double whole = Seconds(events.back().end - events.back().begin).count();
  double sum = 0;
  for (const Track track :
       {Track::kEvaluation, Track::kCommunicating, Track::kCheckpoint, Track::kWaiting}) {
    EXPECT_GE(timeline.counted(track), 0.002);
    sum += timeline.counted(track);
  }
  EXPECT_NEAR(sum, whole, 1e-9);  // all of the outermost, each second once
  EXPECT_DOUBLE_EQ(timeline.waited(),
                   timeline.counted(Track::kWaiting) + timeline.counted(Track::kCommunicating));
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

// Ranks that are threads share a clock, so the true offset is 0.
TEST(ClockOffset, IsWithinItsErrorOfTheTruth) {
  run_ranks({.ranks = 4}, [](World& world) {
    const std::vector<ClockOffset> offsets = clock_offsets(world);
    ASSERT_EQ(offsets.size(), 4U);
    EXPECT_EQ(offsets[0].seconds, 0);
    for (const ClockOffset& offset : offsets) {
      EXPECT_LE(std::abs(offset.seconds), offset.error);
      EXPECT_LT(offset.error, 0.1);
    }
  });
}

}  // namespace
}  // namespace daso::test
