// SPDX-License-Identifier: Apache-2.0
#include "daso/record/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using Job = Membership::Job;
using Outcome = StrategyEvent::Kind;

fs::path file_in(const ScratchFolder& folder) { return folder.path() / "membership.jsonl"; }

std::vector<json> lines_in(const ScratchFolder& folder) {
  std::vector<json> lines;
  std::ifstream stream(file_in(folder));
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

// Three nodes of which one is lost, and comes back.
void enter_three_views(const ScratchFolder& folder) {
  const Membership first(folder.path(), Job::kBegins,
                         {{.number = 1, .nodes = {0, 1, 2}, .joined = {0, 1, 2}}});
  const Membership second(
      folder.path(), Job::kGoesOn,
      {{.number = 2, .first_exchange = 7, .nodes = {0, 2}, .step = 40, .stall = 0.25}});
  const Membership third(folder.path(), Job::kGoesOn,
                         {{.number = 4,
                           .nodes = {0, 1, 2},
                           .joined = {1},
                           .donor = 0,
                           .copied = {{1, 33}},
                           .epoch = 2,
                           .step = 90}});
}

TEST(Membership, SaysWhoIsLostAndWhoHasJoined) {
  const ScratchFolder folder;
  enter_three_views(folder);
  const std::vector<ViewRecord> views = read_views(file_in(folder));
  ASSERT_EQ(views.size(), 3);
  EXPECT_THAT(views[0].lost, IsEmpty());
  EXPECT_THAT(views[0].joined, IsEmpty());
  EXPECT_EQ(views[0].stall, std::nullopt);
  EXPECT_THAT(views[1].lost, ElementsAre(1));
  EXPECT_EQ(views[1].stall, 0.25);
  EXPECT_EQ(views[1].first_exchange, 7);
  EXPECT_EQ(views[1].donor, std::nullopt);
  EXPECT_THAT(views[2].joined, ElementsAre(1));
  EXPECT_EQ(views[2].donor, 0);
  EXPECT_EQ(views[2].copied, (std::map<int, std::int64_t>{{1, 33}}));
  EXPECT_TRUE(views[1].copied.empty());
  EXPECT_EQ(views[2].epoch, 2);
  EXPECT_EQ(views[2].step, 90);
  EXPECT_GE(views[2].time, views[0].time);
  EXPECT_EQ(text_of(views[1], nodes_in(views)), "view 2: 2 of 3 nodes (node 1 lost)");
  EXPECT_EQ(text_of(views[2], nodes_in(views)), "view 4: 3 of 3 nodes (node 1 joined)");
}

// The launcher started it again before the others had gone on without it.
TEST(Membership, ViewsThatALostRankKeptToItselfAreWrittenByTheNext) {
  const ScratchFolder folder;
  const Membership first(folder.path(), Job::kBegins, {{.number = 1, .nodes = {0, 1, 2}}});
  const ViewRecord missed{.number = 2,
                          .nodes = {0, 1},
                          .ranks = {{0}, {1}},
                          .places = {LeftAt{.epoch = 1, .batch = 5, .equal = true}, std::nullopt}};
  const Membership third(folder.path(), Job::kGoesOn,
                         {{.number = 1, .nodes = {0, 1, 2}}, missed, {.number = 3, .nodes = {1}}});
  const std::vector<ViewRecord> views = read_views(file_in(folder));
  ASSERT_EQ(views.size(), 3);
  EXPECT_THAT(views[1].lost, ElementsAre(2));
  EXPECT_EQ(views[1].ranks, missed.ranks);
  EXPECT_EQ(views[1].places, missed.places);
  EXPECT_THAT(views[2].lost, ElementsAre(0));
  EXPECT_TRUE(third.entered());
}

TEST(Membership, DecisionsAreWrittenOnce) {
  const ScratchFolder folder;
  const DecidedView second{.number = 2, .first_exchange = 8, .abandoned = {7}};
  const DecidedView third{.number = 3, .first_exchange = 8, .abandoned = {}};
  const Membership one(folder.path(), Job::kBegins, {{.number = 2, .nodes = {0}}}, {second});
  const Membership other(folder.path(), Job::kGoesOn, {{.number = 3, .nodes = {0}}},
                         {second, third});
  EXPECT_THAT(read_decided(file_in(folder)), ElementsAre(second, third));
  EXPECT_EQ(lines_in(folder).size(), 4);
}

TEST(Membership, KnowsWhereTheLastJobStopped) {
  const ScratchFolder folder;
  Membership first(folder.path(), Job::kBegins, {{.number = 1, .nodes = {0}}});
  EXPECT_FALSE(read_stop(file_in(folder)));
  EXPECT_TRUE(first.stopped(4, 17));
  ASSERT_TRUE(read_stop(file_in(folder)));
  EXPECT_EQ(read_stop(file_in(folder))->epoch, 4);
  EXPECT_EQ(read_stop(file_in(folder))->batch, 17);
  const Membership next(folder.path(), Job::kBegins, {{.number = 1, .nodes = {0}}});
  EXPECT_FALSE(read_stop(file_in(folder)));
}

TEST(Membership, NodeThatIsBackAtOnceWasLostAllTheSame) {
  const ScratchFolder folder;
  const Membership first(folder.path(), Job::kBegins, {{.number = 1, .nodes = {0, 1}}});
  const Membership second(folder.path(), Job::kGoesOn,
                          {{.number = 2, .nodes = {0, 1}, .joined = {1}}});
  EXPECT_EQ(text_of(second.views().back(), 2), "view 2: 2 of 2 nodes (node 1 lost; node 1 joined)");
}

// Launchers tell of all who have left so far; who was not there before is not news.
TEST(Membership, WhoHasLeftIsNotLost) {
  const ScratchFolder folder;
  const Membership first(folder.path(), Job::kBegins, {{.number = 1, .nodes = {0, 1, 2}}});
  const Membership second(folder.path(), Job::kGoesOn,
                          {{.number = 2, .nodes = {0}, .left = {2, 5}}});
  const std::vector<ViewRecord> views = read_views(file_in(folder));
  EXPECT_THAT(views.back().lost, ElementsAre(1));
  EXPECT_THAT(views.back().left, ElementsAre(2));
  EXPECT_EQ(text_of(views.back(), 3), "view 2: 1 of 3 nodes (node 1 lost; node 2 left)");
}

TEST(Membership, ExamplesThatAreDealtAnewAreNoView) {
  const ScratchFolder folder;
  const Membership first(folder.path(), Job::kBegins, {{.number = 1, .nodes = {0, 1}}});
  EXPECT_TRUE(first.entered());
  const Membership again(folder.path(), Job::kGoesOn, {{.number = 1, .nodes = {0, 1}}});
  EXPECT_FALSE(again.entered());
  EXPECT_EQ(lines_in(folder).size(), 1);
}

TEST(Membership, TellsWhatBecameOfExchanges) {
  const ScratchFolder folder;
  Membership members(folder.path(), Job::kBegins, {{.number = 5, .nodes = {0, 1}}});
  EXPECT_TRUE(members.add({{Outcome::kMerge, 3}, {Outcome::kStart, 4}, {Outcome::kAbandon, 4}}));
  EXPECT_TRUE(members.add({{Outcome::kPutOff, 5}, {Outcome::kAgree, 6}, {Outcome::kAverage, 7}}));
  const auto line = [](int exchange, const char* outcome) {
    return json{{"exchange", exchange}, {"outcome", outcome}, {"view", 5}};
  };
  std::vector<json> lines = lines_in(folder);
  lines.erase(lines.begin());
  EXPECT_THAT(lines, ElementsAre(line(3, "committed"), line(4, "abandoned"), line(5, "put off"),
                                 line(6, "committed"), line(7, "committed")));
}

// A run that is resumed keeps what happened before, and has views of its own.
TEST(Membership, JobThatBeginsCountsItsOwnViews) {
  const ScratchFolder folder;
  enter_three_views(folder);
  const Membership next(folder.path(), Job::kBegins, {{.number = 5, .nodes = {0, 1}, .step = 96}});
  EXPECT_EQ(next.views().size(), 1);
  EXPECT_THAT(next.views().front().lost, IsEmpty());
  EXPECT_EQ(read_views(file_in(folder)).size(), 1);
  EXPECT_EQ(lines_in(folder).size(), 4);
}

TEST(Membership, HalfALineIsPassedOverAndNothingIsAddedToIt) {
  const ScratchFolder folder;
  enter_three_views(folder);
  std::ofstream(file_in(folder), std::ios::app) << R"({"view": 5, "nod)";
  const Membership next(folder.path(), Job::kGoesOn, {{.number = 6, .nodes = {0}}});
  const std::vector<ViewRecord> views = read_views(file_in(folder));
  ASSERT_EQ(views.size(), 4);
  EXPECT_THAT(views.back().lost, ElementsAre(1, 2));
  EXPECT_EQ(text_of(views.back(), 3), "view 6: 1 of 3 nodes (nodes 1, 2 lost)");
}

TEST(Membership, WhatSomebodyElseWroteIsPassedOver) {
  const ScratchFolder folder;
  EXPECT_THAT(read_views(file_in(folder)), IsEmpty());
  std::ofstream(file_in(folder))
      << "7\n\"nodes\"\n{\"nodes\": 3}\n{\"nodes\": [\"a\"], \"view\": 1}\n";
  EXPECT_THAT(read_views(file_in(folder)), IsEmpty());
}

}  // namespace
}  // namespace daso::test
