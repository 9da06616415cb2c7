// SPDX-License-Identifier: Apache-2.0
// Lookouts of many ranks in one process, each with a connection and an alarm of its own.
#include "daso/comm/lookout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <thread>

#include "relay.h"

namespace daso {
namespace {

constexpr Seconds kPatience{20};
constexpr const char* kSilent =
    " did not answer the roll call within 0.5 s: dead, stopped or unreachable";

struct Post {
  std::shared_ptr<Alarm> alarm;
  std::unique_ptr<Lookout> lookout;
};

Store host() { return Store::host(listen_on({"127.0.0.1", 0})); }

// All ranks of a world keep watch but those in `silent`. Rank r has begun 10 * r operations.
std::map<int, Post> post_all(const Store& root, int size, const std::set<int>& silent) {
  std::vector<int> launch_ranks(static_cast<std::size_t>(size));
  std::iota(launch_ranks.begin(), launch_ranks.end(), 0);
  std::map<int, Post> posts;
  for (const int rank : launch_ranks) {
    if (silent.contains(rank)) continue;
    const auto begun = [rank] {
      return std::map<std::string, std::int64_t>{{"everyone", 10 * rank}};
    };
    const Watch watch{.rank = rank, .launch_ranks = launch_ranks, .names = {}, .begun = begun};
    const auto alarm = std::make_shared<Alarm>();
    posts[rank] = {alarm, std::make_unique<Lookout>(root, /*generation=*/0, watch, alarm)};
  }
  return posts;
}

Failure failure_at(const Post& post) {
  post.alarm->wait([] { return false; }, Deadline(kPatience));
  return post.alarm->raised().value_or(Failure{.text = "the alarm was not raised"});
}

TEST(Lookout, TellsAllRanksHowFarEachHasCome) {
  const Store root = host();
  const auto posts = post_all(root, 3, {});
  posts.at(1).lookout->ring("failed");
  for (const auto& [rank, keeper] : posts) {
    const Failure failure = failure_at(keeper);
    EXPECT_EQ(failure.text, "failed");
    EXPECT_TRUE(failure.missing.empty());
    ASSERT_EQ(failure.begun.size(), 3U);
    EXPECT_EQ(failure.begun.at(2).at("everyone"), 20);
  }
}

TEST(Lookout, TellsApartWhoLeftWhoWasSeenToEndAndWhoIsSilent) {
  const Store root = host();
  auto posts = post_all(root, 4, {3});
  posts.at(1).lookout->farewell();
  posts.erase(1);
  posts.erase(2);
  report_gone(root, 2, "was ended by signal 9 (Killed)");
  const Failure failure = failure_at(posts.at(0));
  EXPECT_EQ(failure.text, fmt::format("rank 1 has left the world; "
                                      "rank 2 was ended by signal 9 (Killed); rank 3{}",
                                      kSilent));
  EXPECT_EQ(failure.missing, (std::vector<int>{1, 2, 3}));
}

TEST(Lookout, KnowsARankOfALaterGenerationByItsNumberThere) {
  const Store root = host();
  report_gone(root, 1, "exited with code 1");  // of the first generation, which goes on without it
  begin_generation(root, 1, {0, 2});
  const auto alarm = std::make_shared<Alarm>();
  const auto none = [] { return std::map<std::string, std::int64_t>{}; };
  const Watch watch{.rank = 0, .launch_ranks = {0, 2}, .names = {}, .begun = none};
  Lookout lookout(root, /*generation=*/1, watch, alarm);
  report_gone(root, 2, "was ended by signal 9 (Killed)");
  EXPECT_EQ(alarm->wait([] { return false; }, Deadline(kPatience)), Alarm::Outcome::kRaised);
  EXPECT_EQ(alarm->raised()->text, "rank 1 was ended by signal 9 (Killed)");
  EXPECT_EQ(alarm->raised()->missing, (std::vector<int>{1}));
}

Watch watch_of(std::vector<int> launch_ranks) {
  return {.rank = 0, .launch_ranks = std::move(launch_ranks), .names = {}, .begun = [] {
            return std::map<std::string, std::int64_t>{};
          }};
}

TEST(Lookout, IsNotAlarmedByAReportOfARankThatIsNoMemberAnyMore) {
  const Store root = host();
  begin_generation(root, 1, {0, 2});
  const auto alarm = std::make_shared<Alarm>();
  Lookout lookout(root, /*generation=*/1, watch_of({0, 2}), alarm);
  report_gone(root, 1, "was ended by signal 9 (Killed)");  // late: all know it
  EXPECT_FALSE(root.under("generation1").find("alarm").has_value());
}

TEST(Lookout, HearsOfAMemberThatEndedWhileTheOthersFoundEachOther) {
  const Store root = host();
  report_gone(root, 2, "was ended by signal 9 (Killed)");  // to the generation before
  begin_generation(root, 1, {0, 2});
  const auto alarm = std::make_shared<Alarm>();
  Lookout lookout(root, /*generation=*/1, watch_of({0, 2}), alarm);
  EXPECT_EQ(failure_at({alarm, nullptr}).text, "rank 1 was ended by signal 9 (Killed)");
}

// One that has answered and ends is counted once: nobody healthy is taken for missing instead.
TEST(Lookout, CountsARankThatAnswersAndIsThenReportedOnce) {
  const Store root = host();
  auto posts = post_all(root, 3, {2});  // rank 2 is slow
  root.under("generation0").set_once("alarm", R"({"roll": true, "text": "failed"})");
  const Store table = root.under("generation0");
  const Deadline deadline(kPatience);
  while (table.add("accounted", 0) < 2 && !deadline.passed()) std::this_thread::yield();
  report_gone(root, 1, "exited with code 1");
  EXPECT_EQ(table.add("accounted", 0), 2);
}

// Ranks that go on have to be the same ones for all of them.
TEST(Lookout, TellsEveryRankOfTheSameMissing) {
  const Store root = host();
  const auto posts = post_all(root, 3, {2});
  posts.at(0).lookout->ring("failed");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(failure_at(posts.at(rank)).missing, (std::vector<int>{2}));
  }
  const auto late = post_all(root, 3, {0, 1});  // it answers when the others have counted
  const Failure failure = failure_at(late.at(2));
  EXPECT_EQ(failure.begun.size(), 3U);
  EXPECT_EQ(failure.missing, (std::vector<int>{2}));
}

TEST(Lookout, RaisesTheAlarmForWhatIsNoAlarm) {
  const Store root = host();
  const auto alarm = std::make_shared<Alarm>();
  Lookout lookout(root, /*generation=*/0, watch_of({0}), alarm);
  root.set("generation0/alarm", "{");
  EXPECT_NE(failure_at({alarm, nullptr}).text.find("holds what no rank has written"),
            std::string::npos);
}

// Its host may be the machine that was lost: those who go on without it do not wait for it.
TEST(Lookout, EndsThoughTheStoreDoesNotAnswer) {
  const Store root = host();
  test::Relay relay(root.address());
  const Store far = Store::connect(relay.address(), kPatience, /*per_call=*/10 * kPatience);
  const auto alarm = std::make_shared<Alarm>();
  auto lookout = std::make_unique<Lookout>(far, /*generation=*/0, watch_of({0}), alarm);
  relay.hold();
  const Deadline deadline(kPatience);
  while (!relay.has_held() && !deadline.passed()) std::this_thread::yield();
  ASSERT_TRUE(relay.has_held());  // it has asked, and waits
  const Clock::time_point start = Clock::now();
  lookout.reset();
  EXPECT_LT(since(start), kPatience / 2);
  EXPECT_FALSE(alarm->raised().has_value());
}

// Who rings gives up after 2.5 s and then names nobody: too little for a number of requests that
// grows with the square of the ranks.
TEST(Lookout, HundredsOfRanksNameWhoIsSilent) {
  constexpr int kRanks = 200;
  const Store root = host();
  const auto posts = post_all(root, kRanks, {77, 150});
  posts.at(0).lookout->ring("failed");
  for (const auto& [rank, keeper] : posts) {
    SCOPED_TRACE(rank);
    const Failure failure = failure_at(keeper);
    EXPECT_EQ(failure.text, fmt::format("rank 77{}; rank 150{}", kSilent, kSilent));
    EXPECT_EQ(failure.missing, (std::vector<int>{77, 150}));
    EXPECT_EQ(failure.begun.size(), posts.size());
  }
}

}  // namespace
}  // namespace daso
