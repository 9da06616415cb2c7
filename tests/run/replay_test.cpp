// SPDX-License-Identifier: Apache-2.0
#include "daso/run/views/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "daso/base/error.h"
#include "daso/run/views/copies.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Job = Membership::Job;

constexpr Seconds kLimit{1};

// Three nodes of two ranks. Node 1 is lost in view 1, whose exchange 7 is given up, and node 2 is
// the first to hear of it. Nobody enters view 3. In view 4 node 1 is back.
class Recorded {
 public:
  Recorded() {
    const Membership first(folder_.path(), Job::kBegins,
                           {{.number = 1,
                             .nodes = {0, 1, 2},
                             .ranks = {{0, 1}, {2, 3}, {4, 5}},
                             .places = {{}, {}, {}}}});
    const Membership second(folder_.path(), Job::kGoesOn,
                            {{.number = 2,
                              .first_exchange = 8,
                              .nodes = {0, 2},
                              .ranks = {{0, 1}, {4, 5}},
                              .places = {LeftAt{.epoch = 3, .batch = 9, .put_off = 8},
                                         LeftAt{.epoch = 3, .batch = 7, .put_off = 7}}}},
                            {{.number = 2, .first_exchange = 8, .abandoned = {7}}});
    const Membership third(
        folder_.path(), Job::kGoesOn,
        {{.number = 4,
          .first_exchange = 12,
          .nodes = {0, 1, 2},
          .ranks = {{0, 1}, {2, 3}, {4, 5}},
          .places = {LeftAt{.epoch = 6, .batch = 0, .equal = true},
                     {},
                     LeftAt{.epoch = 5, .batch = 40, .equal = true}},
          .joined = {1}}},
        {{.number = 3, .first_exchange = 11}, {.number = 4, .first_exchange = 12}});
  }
  Replay as_rank(int rank) const { return {folder_.path(), rank, Address{"127.0.0.1", 4000}}; }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  const ScratchFolder folder_;
};

void expect_end(const NextView& view, int epoch, std::int64_t batch) {
  ASSERT_TRUE(view.end);
  EXPECT_EQ(view.end->epoch, epoch);
  EXPECT_EQ(view.end->batch, batch);
}

TEST(Replay, NodesLeaveViewsWhereTheyDid) {
  const Recorded run;
  Replay replay = run.as_rank(4);  // of node 2
  const NextView first = replay.next_view(kLimit);
  EXPECT_EQ(first.number, 1);
  EXPECT_TRUE(first.replayed);
  expect_end(first, 3, 7);
  ASSERT_TRUE(first.end->left);
  EXPECT_EQ(first.nodes[2].first_rank, 4);
  const NextView second = replay.next_view(kLimit);
  EXPECT_EQ(second.number, 2);
  EXPECT_EQ(second.first_exchange, 8);
  // Node 0 has closed the epoch, for which it needed this one.
  expect_end(second, 6, 0);
  EXPECT_EQ(second.end->left->epoch, 5);
  EXPECT_EQ(second.end->left->batch, 40);
  const NextView last = replay.next_view(kLimit);
  EXPECT_EQ(last.number, 4);
  EXPECT_FALSE(last.end);
  EXPECT_TRUE(replay.over());
}

TEST(Replay, LostNodeGoesAsFarAsAnybodyAndComesBackWithNothing) {
  const Recorded run;
  Replay replay = run.as_rank(3);
  const NextView first = replay.next_view(kLimit);
  expect_end(first, 3, 9);
  EXPECT_FALSE(first.end->left);
  EXPECT_EQ(replay.next_view(kLimit).number, 4);
}

TEST(Replay, ExchangesCountAsTheyDid) {
  const Recorded run;
  Replay early = run.as_rank(0);
  early.next_view(kLimit);
  EXPECT_EQ(early.start(6), Start::kGoes);
  EXPECT_TRUE(early.committed(6, kLimit));
  EXPECT_EQ(early.start(7), Start::kInVain);  // it had begun
  EXPECT_FALSE(early.committed(7, kLimit));
  EXPECT_EQ(early.start(8), Start::kEnded);
  Replay late = run.as_rank(4);
  late.next_view(kLimit);
  EXPECT_EQ(late.start(7), Start::kEnded);  // it had not
  late.next_view(kLimit);
  EXPECT_EQ(late.start(10), Start::kGoes);
  EXPECT_EQ(late.start(11), Start::kEnded);  // of the view that nobody entered
  late.next_view(kLimit);
  EXPECT_EQ(late.start(100), Start::kGoes);
}

TEST(Replay, DonorCopiesWhatAJoinerHadAheadWhenItDid) {
  const ScratchFolder folder;
  const Membership all(
      folder.path(), Job::kBegins,
      {{.number = 1, .nodes = {0, 1}, .ranks = {{0}, {1}}, .places = {{}, {}}},
       {.number = 2,
        .first_exchange = 30,
        .nodes = {0, 1, 2},
        .ranks = {{0}, {1}, {2}},
        .places = {LeftAt{.epoch = 1, .batch = 60}, LeftAt{.epoch = 1, .batch = 61}, {}},
        .joined = {2},
        .donor = 1,
        .copied = {{2, 17}}}});
  Replay donor(folder.path(), 1, {});
  EXPECT_TRUE(donor.next_view(kLimit).copied.empty());
  EXPECT_EQ(donor.start(16), Start::kGoes);
  EXPECT_FALSE(donor.joiners_wait());
  EXPECT_EQ(donor.start(17), Start::kGoes);
  EXPECT_TRUE(donor.joiners_wait());
  EXPECT_THAT(donor.take_joiners(), ElementsAre(replayed_place(2, 2)));
  EXPECT_FALSE(donor.joiners_wait());
  EXPECT_THAT(donor.next_view(kLimit).copied, ElementsAre(2));
  Replay other(folder.path(), 0, {});
  other.next_view(kLimit);
  EXPECT_EQ(other.start(17), Start::kGoes);
  EXPECT_FALSE(other.joiners_wait());
}

TEST(Replay, RankThatTheRunHadNotHasNoPartInIt) { EXPECT_TRUE(Recorded().as_rank(6).over()); }

TEST(Replay, RunThatWasStoppedStopsThere) {
  const Recorded run;
  Membership last(run.folder(), Job::kGoesOn, {});
  last.stopped(9, 4);
  Replay replay = run.as_rank(2);
  replay.next_view(kLimit);
  const NextView view = replay.next_view(kLimit);
  expect_end(view, 9, 4);
  EXPECT_TRUE(view.end->stops);
}

TEST(Replay, FaultOfItsOwnEndsIt) {
  Replay replay = Recorded().as_rank(0);
  EXPECT_THROW(replay.trouble("rank 1 is gone"), PeerError);
}

TEST(Replay, RefusesWhatCannotBeReplayed) {
  const ScratchFolder folder;
  EXPECT_THAT(refusal([&] { Replay(folder.path(), 0, {}); }),
              HasSubstr("there is no membership.jsonl"));
  std::ofstream(folder.path() / "membership.jsonl")
      << R"({"view":1,"first_exchange":0,"nodes":[0],"lost":[],"joined":[],"donor":null,)"
      << R"("epoch":0,"batch":0,"step":0,"time":1,"begins":true})" << '\n';
  EXPECT_THAT(refusal([&] { Replay(folder.path(), 0, {}); }), HasSubstr("an older daso wrote it"));
}

}  // namespace
}  // namespace daso::test
