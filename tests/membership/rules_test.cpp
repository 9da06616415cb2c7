// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "daso/membership/paxos.h"
#include "daso/membership/votes.h"
#include "daso/membership/watch.h"

namespace daso::membership {
namespace {

const std::vector<Member> kFour = {{0, 1}, {1, 1}, {2, 1}, {3, 1}};

View view_of(std::vector<Member> members, ExchangeNumber first = 0) {
  return {.number = 1, .members = std::move(members), .first_exchange = first};
}

Progress progress_of(ExchangeNumber next, ExchangeNumber committed,
                     std::vector<ExchangeNumber> held = {}) {
  return {next, committed, std::move(held)};
}

TEST(Quorum, IsMoreThanHalfOfTheViewBefore) {
  const std::vector<Member> three(kFour.begin(), kFour.begin() + 3);
  const std::vector<Member> two(kFour.begin(), kFour.begin() + 2);
  EXPECT_TRUE(decides(kFour, three, std::nullopt));
  EXPECT_FALSE(decides(kFour, two, std::nullopt));
  EXPECT_TRUE(decides(two, two, std::nullopt));
}

TEST(Quorum, IsTheHalfThatTheTieBreakNamed) {
  const std::vector<Member> low(kFour.begin(), kFour.begin() + 2);
  const std::vector<Member> high(kFour.begin() + 2, kFour.end());
  EXPECT_TRUE(decides(kFour, low, low));
  EXPECT_FALSE(decides(kFour, high, low));
  EXPECT_FALSE(decides(kFour, {{low.front()}}, {{low.front()}}));  // less than half
}

TEST(Quorum, DoesNotCountSuccessors) {
  const std::vector<Member> voters = {{0, 1}, {1, 1}, {2, 2}};
  EXPECT_FALSE(decides(kFour, voters, std::nullopt));
}

TEST(NextView, CommitsWhatAllSurvivorsHoldAndAbandonsTheRest) {
  const std::vector<ReportOf> reports = {{kFour[0], {.progress = progress_of(8, 5, {5, 7})}},
                                         {kFour[2], {.progress = progress_of(7, 4, {4, 5})}}};
  const auto next = next_view(view_of(kFour), reports, kMostMembers);
  ASSERT_TRUE(next);
  EXPECT_EQ(2, next->number);
  EXPECT_EQ((std::vector<Member>{kFour[0], kFour[2]}), next->members);
  EXPECT_EQ(8, next->first_exchange);
  EXPECT_EQ((std::vector<Settled>{{4, true}, {5, true}, {6, false}, {7, false}}), next->settled);
  EXPECT_FALSE(next->blocking);
}

TEST(NextView, NamesTheLowestOfThoseWhoAreAheadInABlockingStep) {
  const std::vector<ReportOf> reports = {
      {kFour[0], {.step = 6}}, {kFour[2], {.step = 7}}, {kFour[1], {.step = 7}}};
  EXPECT_EQ((BlockingStep{7, 1}), next_view(view_of(kFour), reports, kMostMembers)->blocking);
}

TEST(NextView, LetsThoseInWhomAllHear) {
  const std::vector<ReportOf> reports = {{kFour[0], {.candidates = {{4, 1}, {5, 1}, {5, 2}}}},
                                         {kFour[1], {.candidates = {{5, 1}, {5, 2}}}},
                                         {kFour[2], {.leaving = true}}};
  const auto next = next_view(view_of(kFour), reports, kMostMembers);
  EXPECT_EQ((std::vector<Member>{kFour[0], kFour[1], {5, 2}}), next->members);
  EXPECT_EQ((std::vector<Member>{{5, 2}}), next->joined);
}

TEST(NextView, KeepsJoinersInTheMinority) {
  const Report report{.candidates = {{4, 1}, {5, 1}, {6, 1}}};
  const std::vector<ReportOf> reports = {
      {kFour[0], report}, {kFour[1], report}, {kFour[2], report}};
  EXPECT_EQ(2, next_view(view_of(kFour), reports, kMostMembers)->joined.size());
  EXPECT_EQ(1, next_view(view_of({kFour[0]}), {{{kFour[0], report}}}, kMostMembers)->joined.size());
}

TEST(NextView, HasNoMoreMembersThanSeats) {
  // The lowest come first: those who had a seat before have lower numbers than those who stand by.
  const Report report{.candidates = {{3, 2}, {4, 1}}};
  const std::vector<ReportOf> reports = {
      {kFour[0], report}, {kFour[1], report}, {kFour[2], report}};
  EXPECT_EQ((std::vector<Member>{{3, 2}}), next_view(view_of(kFour), reports, 4)->joined);
  EXPECT_EQ(2, next_view(view_of(kFour), reports, 5)->joined.size());
  EXPECT_TRUE(next_view(view_of(kFour), reports, 3)->joined.empty());
  EXPECT_TRUE(next_view(view_of(kFour), reports, 2)->joined.empty());
}

TEST(NextView, TakesTheWordOfTheLivingAboutTheDead) {
  // 0 and 1 have lost each other; the proposer's word is first. 3 has died after its report.
  const std::vector<ReportOf> reports = {{kFour[1], {.dead = {kFour[0]}}},
                                         {kFour[0], {.dead = {kFour[1], kFour[2]}}},
                                         {kFour[2], {.dead = {kFour[3]}}},
                                         {kFour[3], {}}};
  EXPECT_EQ((std::vector<Member>{kFour[1], kFour[2]}),
            next_view(view_of(kFour), reports, kMostMembers)->members);
}

TEST(NextView, RefusesReportsThatCannotBeOfOneView) {
  const std::vector<ReportOf> apart = {{kFour[0], {.progress = progress_of(1000, 1000)}},
                                       {kFour[1], {.progress = progress_of(3, 3)}}};
  EXPECT_FALSE(next_view(view_of(kFour), apart, kMostMembers));
  const std::vector<ReportOf> older = {{kFour[0], {.progress = progress_of(3, 3)}}};
  EXPECT_FALSE(next_view(view_of(kFour, 4), older, kMostMembers));
  EXPECT_FALSE(next_view(view_of(kFour), {}, kMostMembers));
}

TEST(Votes, CommitWhenAllHavePrepared) {
  Votes votes(view_of({kFour[0], kFour[1]}, 3), kFour[0]);
  EXPECT_FALSE(votes.started(4));
  EXPECT_TRUE(votes.started(3));
  EXPECT_TRUE(votes.started(4));
  EXPECT_TRUE(votes.prepared(3));
  EXPECT_TRUE(votes.take_commits().empty());
  votes.heard(1, progress_of(5, 3, {4}));
  EXPECT_TRUE(votes.prepared(4));
  EXPECT_TRUE(votes.take_commits().empty());  // 3 comes first
  votes.heard(1, progress_of(4, 3, {3}));     // an older word
  EXPECT_EQ((std::vector<ExchangeNumber>{3, 4}), votes.take_commits());
  EXPECT_TRUE(votes.take_commits().empty());
}

TEST(Votes, CommitByThemselvesInAViewOfOne) {
  Votes votes(view_of({kFour[0]}), kFour[0]);
  EXPECT_TRUE(votes.started(0));
  EXPECT_TRUE(votes.prepared(0));
  EXPECT_EQ((std::vector<ExchangeNumber>{0}), votes.take_commits());
}

TEST(Votes, DoNotChangeOnceTheyAreFrozen) {
  Votes votes(view_of({kFour[0]}), kFour[0]);
  EXPECT_TRUE(votes.started(0));
  votes.freeze();
  EXPECT_FALSE(votes.prepared(0));
  EXPECT_FALSE(votes.started(1));
  EXPECT_EQ(progress_of(1, 0), votes.progress());
}

TEST(Votes, RefuseTooManyInFlight) {
  Votes votes(view_of({kFour[0], kFour[1]}), kFour[0]);
  for (ExchangeNumber i = 0; i < kMostInFlight; ++i) EXPECT_TRUE(votes.started(i));
  EXPECT_THROW(votes.started(kMostInFlight), ConfigError);
}

TEST(Watch, SuspectsSilenceUntilItIsBroken) {
  Watch watch(view_of(kFour), kFour[0], Seconds(0));
  watch.heard(1, Seconds(3));
  watch.look(Seconds(5.5), Seconds(5));
  EXPECT_FALSE(watch.lost(1));
  EXPECT_TRUE(watch.lost(2));
  EXPECT_EQ((std::vector<Member>{kFour[0], kFour[1]}), watch.reachable());
  watch.heard(2, Seconds(6));
  EXPECT_FALSE(watch.lost(2));
}

TEST(Watch, NeverTakesBackADeath) {
  Watch watch(view_of(kFour), kFour[0], Seconds(0));
  watch.died(2);
  watch.heard(2, Seconds(1));
  watch.forgive(Seconds(1));
  EXPECT_TRUE(watch.lost(2));
  EXPECT_EQ((std::vector<Member>{kFour[2]}), watch.dead());
}

TEST(Acceptor, KeepsItsPromise) {
  Acceptor acceptor;
  const View view = view_of(kFour);
  EXPECT_TRUE(acceptor.promise({2, 1}));
  EXPECT_FALSE(acceptor.promise({2, 0}));
  EXPECT_FALSE(acceptor.accept({1, 3}, view));
  EXPECT_TRUE(acceptor.accept({2, 1}, view));
  EXPECT_EQ((AcceptedView{{2, 1}, view}), acceptor.accepted());
}

TEST(Proposer, IsBoundByTheHighestAcceptedBallot) {
  Proposer proposer;
  proposer.begin({5, 0});
  const View low = view_of({kFour[0]});
  const View high = view_of({kFour[1]});
  proposer.promised(kFour[1], {.ballot = {5, 0}, .accepted = AcceptedView{{3, 1}, high}});
  proposer.promised(kFour[2], {.ballot = {5, 0}, .accepted = AcceptedView{{2, 2}, low}});
  proposer.promised(kFour[3], {.ballot = {4, 0}});  // to another ballot
  EXPECT_EQ(high, proposer.bound()->view);
  EXPECT_EQ((std::vector<Member>{kFour[1], kFour[2]}), proposer.voters());
}

}  // namespace
}  // namespace daso::membership
