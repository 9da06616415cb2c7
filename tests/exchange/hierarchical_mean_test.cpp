// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/hierarchical_mean.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>

#include "daso/base/error.h"
#include "daso/comm/link/staged_link.h"
#include "late_lane.h"
#include "run_ranks.h"
#include "scripted_view.h"

namespace daso::test {
namespace {

// Rank r holds r * (piece + 1), so that the mean of three ranks is piece + 1, whatever node they
// are on; 5 elements divide by neither ranks nor nodes.
void expect_averages_of_more_pieces_than_are_in_flight(bool late) {
  for (const std::size_t ahead : {0, 1, 3}) {
    run_ranks({.ranks = 3, .nodes = {"a", "a", "b"}}, [&](World& world) {
      const Leaders leaders(world, ExchangeKind::kSharded, "test");
      const std::shared_ptr<Lane> lane = late ? late_lane() : open_lane(at::kCPU);
      StagedLink staged(world.node_link("test"), at::kCPU, lane, {.text = "late"}, world.guard());
      NodeLink& node = late ? staged : world.node_link("test");
      HierarchicalMean mean(world, node, *lane, leaders, ahead);
      for (int round = 0; round < 2; ++round) {
        std::vector<at::Tensor> pieces;
        std::vector<int> done;
        for (int i = 0; i < 11; ++i) {
          pieces.push_back(at::full({5}, static_cast<float>(world.rank() * (i + 1))));
          lane->follow(*lane->mark_of_caller());
          lane->run([&] {
            mean.start_average_of_ranks(pieces.back(), [&done, i] { done.push_back(i); });
          });
          EXPECT_EQ(static_cast<int>(done.size()),
                    std::max(0, i + 1 - 2 * static_cast<int>(ahead)));
        }
        lane->run([&] { mean.finish(); });
        lane->lead_caller();
        ASSERT_EQ(done.size(), pieces.size());
        for (int i = 0; i < 11; ++i) {
          EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
          EXPECT_TRUE(
              at::allclose(pieces[static_cast<std::size_t>(i)], at::full({5}, i + 1, at::kFloat)));
        }
      }
      // One slice, led by the first rank of each node: there and back, padded to 6 elements.
      const std::int64_t bytes = world.local_rank() == 0 ? 2 * 11 * 2 * 3 * 4 : 0;
      EXPECT_EQ(mean.bytes_between_nodes(), bytes);
    });
  }
}

TEST(HierarchicalMean, AveragesMorePiecesThanAreInFlight) {
  expect_averages_of_more_pieces_than_are_in_flight(/*late=*/false);
}

TEST(HierarchicalMean, AveragesWhatIsCopiedToTheHostAndBackHoweverLate) {
  expect_averages_of_more_pieces_than_are_in_flight(/*late=*/true);
}

// The owner may do anything with what it receives: here it takes the largest.
TEST(HierarchicalMean, AppliesTheRuleOfThePiece) {
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [](World& world) {
    const Leaders leaders(world, ExchangeKind::kSharded, "test");
    const std::unique_ptr<Lane> lane = open_lane(at::kCPU);
    HierarchicalMean mean(world, world.node_link("test"), *lane, leaders, 2);
    const at::Tensor own = at::tensor({1, 5, 2, 7}, at::kInt) * (world.rank() == 0 ? 1 : -1);
    const at::Tensor largest = at::zeros({4}, at::kInt);
    mean.start(0, {.input = own,
                   .output = largest,
                   .rule = [](const at::Tensor& received, const at::Tensor& answer) {
                     answer.copy_(received.view({2, -1}).amax(0));
                   }});
    mean.finish();
    EXPECT_TRUE(at::equal(largest, at::tensor({1, 5, 2, 7}, at::kInt)));
    EXPECT_EQ(own[3].item<int>(), world.rank() == 0 ? 7 : -7);
  });
}

// A node's link of which somebody is told what is called.
class ToldLink final : public NodeLink {
 public:
  ToldLink(NodeLink& link, std::function<void()> on_reduced, std::function<void()> on_gather)
      : link_(link), on_reduced_(std::move(on_reduced)), on_gather_(std::move(on_gather)) {}

  int rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }
  std::string kind() const override { return link_.kind(); }
  bool shares_memory() const override { return link_.shares_memory(); }
  void reduce(const at::Tensor& tensor, Slices slices, Seconds limit) override {
    link_.reduce(tensor, slices, limit);
    on_reduced_();
  }
  void gather(const at::Tensor& tensor, Slices slices, Seconds limit) override {
    on_gather_();
    link_.gather(tensor, slices, limit);
  }

 private:
  NodeLink& link_;
  const std::function<void()> on_reduced_;
  const std::function<void()> on_gather_;
};

// Node b loses its second rank when the first has sent what is its own. So of the ranks of node a
// the first gets its answer, and the second does not: the first must not wait for it.
TEST(HierarchicalMean, ALossIsThrownOnAllRanksOfANode) {
  const std::map<std::string, int> ids = {{"a", 0}, {"b", 1}};
  std::latch all_thrown(4);
  std::promise<void> first_goes_on;  // which it does not
  std::atomic<bool> told = false;
  const auto tell = [&] {
    if (!told.exchange(true)) first_goes_on.set_value();
  };
  RankOptions ranks =
      in_view({"a", "a", "b", "b"}, ids, std::make_shared<ScriptedView>(ScriptedView::Script{}));
  ranks.limit = Seconds(20);
  const auto begin = Clock::now();
  const auto errors = run_places(ranks, [&](const WorldOptions& place) {
    World world = World::join(place);
    const Leaders leaders(world, ExchangeKind::kSharded, "test");
    const std::unique_ptr<Lane> lane = open_lane(at::kCPU);
    const auto on_reduced = [&] {
      if (world.rank() != 3) return;
      first_goes_on.get_future().wait_for(std::chrono::seconds(1));
      world.abandon("it is gone");
      throw PeerError("it is gone");
    };
    ToldLink link(world.node_link("test"), on_reduced, [&] {
      if (world.rank() == 0) tell();
    });
    HierarchicalMean mean(world, link, *lane, leaders, /*ahead=*/1);
    EXPECT_THROW(
        {
          mean.start_average_of_ranks(at::zeros({8}), [] {});
          mean.finish();
        },
        PeerError);
    all_thrown.arrive_and_wait();  // until then nobody sees another's world end
  });
  for (const std::exception_ptr& error : errors) EXPECT_EQ(text_of(error), "");
  EXPECT_LT(since(begin), Seconds(10));
}

TEST(Pieces, CoverAllRowsAndDivideByTheNodes) {
  for (const int nodes : {1, 2, 3, 7, 16}) {
    for (const std::int64_t rows : {0, 1, 5, 127, 128, 129, 500, 1174, 5000, 99'999}) {
      const std::vector<Segment> pieces = pieces_of(rows, nodes);
      ASSERT_FALSE(pieces.empty());
      ASSERT_LE(pieces.size(), static_cast<std::size_t>(kMostPieces));
      std::int64_t next = 0;
      for (const Segment& piece : pieces) {
        EXPECT_EQ(piece.begin, next);
        EXPECT_EQ(piece.begin % nodes, 0);
        EXPECT_TRUE(piece.length() > 0 || rows == 0);
        next = piece.end;
      }
      EXPECT_EQ(next, rows);
    }
  }
  EXPECT_EQ(pieces_of(127, 1).size(), 1U);  // small ones are not cut
  EXPECT_EQ(pieces_of(128, 1).size(), 2U);
  EXPECT_EQ(pieces_of(5000, 4).size(), 8U);
}

}  // namespace
}  // namespace daso::test
