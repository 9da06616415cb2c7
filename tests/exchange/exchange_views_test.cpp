// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "daso/base/error.h"
#include "daso/exchange/agreement.h"
#include "daso/exchange/exchange.h"
#include "daso/optim/sgd.h"
#include "daso/tensor/large_tensor.h"
#include "late_lane.h"
#include "run_ranks.h"
#include "scripted_view.h"
#include "together.h"

// Exchanges in worlds that end with their views: those that do not begin, those that do not count,
// and those that are merged in another world than they began in.
namespace daso::test {
namespace {

const std::map<std::string, int> kIds = {{"a", 0}, {"b", 1}, {"c", 2}};
// Without c the smallest node has two ranks, and the model two slices instead of one.
const std::vector<std::string> kThree = {"a", "a", "b", "b", "c"};
const std::vector<std::string> kTwo = {"a", "a", "b", "b"};

std::vector<ExchangeOptions> every_wire_and_kind() {
  std::vector<ExchangeOptions> all;
  for (const std::string& name : wire_names()) {
    all.push_back({.kind = ExchangeKind::kSharded, .wire = *find_wire(name), .seed = 7});
  }
  all.push_back({.kind = ExchangeKind::kRotating, .wire = Wire::kFp32});
  return all;
}

RankOptions ranks_in_view(const std::vector<std::string>& nodes, ScriptedView::Script script) {
  script.nodes = static_cast<int>(std::set<std::string>(nodes.begin(), nodes.end()).size());
  return in_view(nodes, kIds, std::make_shared<ScriptedView>(std::move(script)));
}

// A rank of a view, which knows what becomes of all nodes.
struct ViewRank {
  ViewRank(World& of, const ExchangeOptions& options, std::unique_ptr<Lane> lane = nullptr)
      : world(of),
        model(torch::nn::Linear(600, 201).ptr()),
        optimizer(model, {.momentum = 0.9}),
        leaders(world, options.kind, "exchange"),
        exchange(world, model, leaders, options, make_outer_rule(options.merge), std::move(lane)),
        agreement(world, model, optimizer, leaders),
        together({0.4F, 0.4F, 0.2F}, start(), options) {
    world.enter();
    exchange.set_anchor();
  }

  Floats start() {
    model.parameters().copy_(at::sin(at::arange(model.parameters().numel(), at::kFloat)));
    return parameters();
  }
  Floats parameters() const {
    const std::span<const float> own = floats(model.parameters());
    return {own.begin(), own.end()};
  }
  Floats anchor() {
    const at::Tensor whole = exchange.state().at("exchange.anchor").contiguous();
    return {whole.const_data_ptr<float>(), whole.const_data_ptr<float>() + whole.numel()};
  }
  void learn(std::int64_t round, std::size_t nodes) {
    learn_together(round, nodes);
    Together::add(floats(model.parameters()),
                  progress(world.node_id(), round, model.parameters().numel()));
  }
  void learn_together(std::int64_t round, std::size_t nodes) {
    for (std::size_t node = 0; node < nodes; ++node) {
      together.move(node,
                    progress(static_cast<std::int64_t>(node), round, model.parameters().numel()));
    }
  }
  void expect_as_together() {
    EXPECT_EQ(parameters(), together.parameters(static_cast<std::size_t>(world.node_id())));
    EXPECT_EQ(anchor(), together.anchor());
  }
  // Rounds 0 and 1, with exchange 0 of three nodes.
  void first_exchange() {
    learn(0, 3);
    EXPECT_TRUE(exchange.start(0));
    together.start(0);
    learn(1, 3);
    EXPECT_TRUE(exchange.merge(1));
    together.merge();
    expect_as_together();
  }
  // The same in hindsight.
  void remember_first_exchange() {
    learn_together(0, 3);
    together.start(0);
    learn_together(1, 3);
    together.merge();
  }
  // Rounds `number` and `number` + 1.
  void exchange_of(std::int64_t number, std::size_t nodes) {
    EXPECT_TRUE(exchange.start(number));
    together.start(number);
    learn(10 * number, nodes);
    EXPECT_TRUE(exchange.merge(1));
    together.merge();
    expect_as_together();
  }

  World& world;
  FlatModel model;
  Sgd optimizer;
  const Leaders leaders;
  Exchange exchange;
  Agreement agreement;
  Together together;
};

void expect_equal_states(const State& one, const State& other) {
  ASSERT_EQ(one.size(), other.size());
  for (const auto& [name, tensor] : one) EXPECT_TRUE(at::equal(tensor, other.at(name))) << name;
}

// What a rank takes along from one view to the next.
struct Luggage {
  at::Tensor parameters;
  State state;
  Floats expected;
};

std::size_t index_of(const World& world) { return static_cast<std::size_t>(world.rank()); }

TEST(ExchangeInViews, AbandonedIsAsIfItHadNeverBegun) {
  for (const ExchangeOptions& options : every_wire_and_kind()) {
    for (const bool late : {false, true}) {
      run_ranks(ranks_in_view(kThree, {.abandoned = {1}}), [&](World& world) {
        ViewRank rank(world, options, late ? late_lane() : nullptr);
        rank.first_exchange();
        rank.learn(2, 3);
        const State before = rank.exchange.state();
        EXPECT_TRUE(rank.exchange.start(1));
        rank.learn(3, 3);
        const Floats parameters = rank.parameters();
        EXPECT_FALSE(rank.exchange.merge(1));
        EXPECT_FALSE(rank.exchange.in_flight());
        EXPECT_EQ(rank.parameters(), parameters);
        expect_equal_states(before, rank.exchange.state());
        rank.exchange_of(2, 3);
      });
    }
  }
}

TEST(ExchangeInViews, BeginsInVainWithoutTheOthers) {
  for (const ExchangeOptions& options : every_wire_and_kind()) {
    run_ranks(ranks_in_view(kThree, {.in_vain = {1}}), [&](World& world) {
      ViewRank rank(world, options);
      rank.first_exchange();
      const State before = rank.exchange.state();
      const Floats parameters = rank.parameters();
      if (world.node() != 2) {  // which would be waited for
        EXPECT_TRUE(rank.exchange.start(1));
        EXPECT_TRUE(rank.exchange.in_flight());
        EXPECT_FALSE(rank.exchange.merge(1));
      }
      expect_equal_states(before, rank.exchange.state());
      EXPECT_EQ(rank.parameters(), parameters);
      rank.exchange_of(2, 3);
    });
  }
}

TEST(ExchangeInViews, StateDropsWhatIsAbandoned) {
  run_ranks(ranks_in_view(kThree, {.abandoned = {1}}), [&](World& world) {
    ViewRank rank(world, {.wire = Wire::kInt4});
    rank.first_exchange();
    const State before = rank.exchange.state();
    EXPECT_TRUE(rank.exchange.start(1));
    expect_equal_states(before, rank.exchange.state());
    EXPECT_FALSE(rank.exchange.in_flight());
    rank.exchange_of(2, 3);
  });
}

TEST(ExchangeInViews, BeginsInTheNextViewWhatTheLastOneHasPutOff) {
  for (const ExchangeOptions& options : every_wire_and_kind()) {
    std::vector<Luggage> luggage(kThree.size());
    run_ranks(ranks_in_view(kThree, {.refused = {1}}), [&](World& world) {
      ViewRank rank(world, options);
      rank.first_exchange();
      rank.learn(2, 3);
      const Floats parameters = rank.parameters();
      const State before = rank.exchange.state();
      EXPECT_FALSE(rank.exchange.start(1));
      EXPECT_FALSE(rank.exchange.in_flight());
      EXPECT_EQ(rank.parameters(), parameters);
      expect_equal_states(before, rank.exchange.state());
      luggage[index_of(world)] = {rank.model.parameters().clone(), before, {}};
    });
    run_ranks(ranks_in_view(kTwo, {}), [&](World& world) {
      ViewRank rank(world, options);
      rank.remember_first_exchange();
      rank.learn_together(2, 3);
      rank.together.keep_first({0.5F, 0.5F});  // clears what rounding left
      rank.model.parameters().copy_(luggage[index_of(world)].parameters);
      rank.exchange.load_state(luggage[index_of(world)].state);
      rank.exchange.clear_residuals();
      rank.expect_as_together();
      rank.exchange_of(1, 2);
      rank.exchange_of(2, 2);
    });
  }
}

TEST(ExchangeInViews, MergesInASmallerWorldWhatCountsInTheOneBefore) {
  std::vector<ExchangeOptions> all = every_wire_and_kind();
  all.push_back({.wire = Wire::kInt8, .merge = MergeRule::kPaper});
  all.push_back({ExchangeKind::kRotating, Wire::kFp32, MergeRule::kPaper});
  for (const ExchangeOptions& options : all) {
    const bool corrected = options.merge == MergeRule::kCorrected;
    std::vector<Luggage> luggage(kThree.size());
    run_ranks(ranks_in_view(kThree, {}), [&](World& world) {
      ViewRank rank(world, options);
      rank.learn(0, 3);
      EXPECT_TRUE(rank.exchange.start(0));
      rank.learn(1, 3);
      Luggage& own = luggage[index_of(world)];
      own = {rank.model.parameters().clone(), rank.exchange.state(), {}};
      EXPECT_TRUE(rank.exchange.merge(2));
      own.expected = rank.parameters();
    });
    for (const std::vector<std::string>& left : {kTwo, {"a", "a"}}) {
      run_ranks(ranks_in_view(left, {}), [&](World& world) {
        ViewRank rank(world, options);
        const Luggage& own = luggage[index_of(world)];
        rank.model.parameters().copy_(own.parameters);
        rank.exchange.load_state(own.state);
        EXPECT_TRUE(rank.exchange.in_flight());
        EXPECT_TRUE(rank.exchange.merge(2));
        EXPECT_EQ(rank.parameters(), own.expected);
        if (!corrected || left.size() == 2) return;
        rank.remember_first_exchange();
        rank.together.keep_first({0.5F, 0.5F});
        rank.exchange.clear_residuals();
        rank.expect_as_together();
        rank.exchange_of(1, 2);
      });
    }
  }
}

// The thread in the background fails, training does not.
TEST(ExchangeInViews, LostNodeLeavesTheRestAsTheyWere) {
  for (const ExchangeOptions& options : every_wire_and_kind()) {
    const auto view = std::make_shared<ScriptedView>(
        ScriptedView::Script{.nodes = 3, .refused = {}, .abandoned = {1}});
    const auto errors = run_places(in_view(kThree, kIds, view), [&](const WorldOptions& place) {
      World world = World::join(place);
      ViewRank rank(world, options);
      rank.first_exchange();
      if (world.node_id() == 2) {
        world.abandon("its node is gone");
        return;
      }
      const State before = rank.exchange.state();
      rank.exchange.start(1);
      rank.learn(2, 3);
      const Floats parameters = rank.parameters();
      EXPECT_FALSE(rank.exchange.merge(1));
      EXPECT_EQ(rank.parameters(), parameters);
      rank.exchange.check();
      expect_equal_states(before, rank.exchange.state());
    });
    for (const std::exception_ptr& error : errors) EXPECT_EQ(text_of(error), "");
    EXPECT_EQ(view->nodes_that_prepared(1), 0);
  }
}

TEST(ExchangeInViews, JoinerGetsTheAnchorAsItIsAfterTheMerge) {
  for (const ExchangeOptions& options : every_wire_and_kind()) {
    run_ranks(ranks_in_view(kTwo, {}), [&](World& world) {
      ViewRank rank(world, options);
      rank.together.keep_first({0.5F, 0.5F});
      rank.learn(0, 2);
      EXPECT_TRUE(rank.exchange.start(0));
      rank.together.start(0);
      rank.learn(1, 2);
      const State own = rank.exchange.state();
      const State joiner = rank.exchange.state_for_joiner();
      expect_equal_states(own, rank.exchange.state());
      EXPECT_FALSE(joiner.contains("exchange.own"));
      EXPECT_TRUE(rank.exchange.merge(1));
      rank.together.merge();
      rank.expect_as_together();
      EXPECT_TRUE(
          at::equal(joiner.at("exchange.anchor"), rank.exchange.state().at("exchange.anchor")));
      // It enters with its parameters there, so that the others move it alone.
      Luggage joins{joiner.at("exchange.anchor").view({-1}), joiner, {}};
      rank.model.parameters().copy_(joins.parameters);
      rank.exchange.load_state(joins.state);
      EXPECT_EQ(rank.anchor(), rank.parameters());
    });
  }
}

TEST(ExchangeInViews, CopyOfTheAnchorThatFollowsTheAnswersIsTheAnchor) {
  for (const ExchangeOptions& options : every_wire_and_kind()) {
    for (const MergeRule merge : {MergeRule::kCorrected, MergeRule::kPaper}) {
      run_ranks(ranks_in_view(kTwo, {.abandoned = {2}}), [&](World& world) {
        ExchangeOptions with_rule = options;
        with_rule.merge = merge;
        ViewRank rank(world, with_rule);
        rank.learn(0, 2);
        EXPECT_TRUE(rank.exchange.start(0));
        const at::Tensor copy = rank.exchange.anchor();  // while its answer is on its way
        std::vector<std::int64_t> told;
        rank.exchange.on_answer([&](std::int64_t exchange, const at::Tensor& answer) {
          told.push_back(exchange);
          follow(with_rule, copy, answer);
        });
        for (std::int64_t exchange = 0; exchange < 4; ++exchange) {
          if (exchange > 0) EXPECT_TRUE(rank.exchange.start(exchange));
          rank.learn(exchange + 1, 2);
          EXPECT_EQ(exchange != 2, rank.exchange.merge(1));
        }
        EXPECT_EQ((std::vector<std::int64_t>{0, 1, 3}), told);
        EXPECT_TRUE(at::equal(copy, rank.exchange.state().at("exchange.anchor")));
        // Of one that counts and is not merged yet.
        EXPECT_TRUE(rank.exchange.start(4));
        const State joiner = rank.exchange.state_for_joiner();
        EXPECT_EQ(4, told.back());
        EXPECT_TRUE(at::equal(copy, joiner.at("exchange.anchor")));
      });
    }
  }
}

TEST(ExchangeInViews, NodeAloneKeepsItsParametersAsItsAnchor) {
  for (const ExchangeOptions& options : every_wire_and_kind()) {
    run_ranks(ranks_in_view({"b", "b"}, {}), [&](World& world) {
      ViewRank rank(world, options);
      rank.learn(0, 3);
      EXPECT_TRUE(rank.exchange.start(0));
      const Floats sent = rank.parameters();
      rank.learn(1, 3);
      const Floats moved = rank.parameters();
      EXPECT_TRUE(rank.exchange.merge(1));
      EXPECT_EQ(rank.parameters(), moved);
      EXPECT_EQ(rank.anchor(), sent);
    });
  }
}

TEST(WaitForNodes, FailsOnAllRanksOfANodeIfOnOne) {
  run_ranks({.ranks = 3}, [](World& world) {
    NodeLink* const node = &world.node_link("test");
    EXPECT_NO_THROW(wait_for_nodes(node, world.limit(), [] {}));
    const auto lost = [&] {
      wait_for_nodes(node, world.limit(), [&] {
        if (world.rank() == 1) throw PeerError("rank 7 is gone");
      });
    };
    EXPECT_THROW(lost(), PeerError);
    EXPECT_NO_THROW(wait_for_nodes(node, world.limit(), [] {}));
  });
}

// What is known only when the next exchange begins: that one is given up, and so is the node. The
// others hold what they had before.
TEST(ExchangeInViews, GivesUpANodeWhoseAnchorIsDamaged) {
  for (const ExchangeOptions& options : every_wire_and_kind()) {
    const auto view = std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 3});
    const auto errors = run_places(in_view(kThree, kIds, view), [&](const WorldOptions& place) {
      World world = World::join(place);
      ViewRank rank(world, options);
      rank.first_exchange();
      if (world.node_id() == 1) {
        State state = rank.exchange.state();
        at::Tensor& anchor = state.at("exchange.anchor");
        floats(anchor)[1000] = -floats(anchor)[1000] - 1;
        rank.exchange.load_state(state);
      }
      const Floats parameters = rank.parameters();
      EXPECT_TRUE(rank.exchange.start(1));
      try {
        EXPECT_FALSE(rank.exchange.merge(1));
      } catch (const std::exception& error) {
        world.abandon(error.what());
        throw;
      }
      EXPECT_EQ(rank.parameters(), parameters);
    });
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      const bool damaged = kThree[rank] == "b";
      EXPECT_EQ(exit_code_of(errors[rank]), damaged ? kExitPeer : kExitOk) << text_of(errors[rank]);
    }
    EXPECT_NE(text_of(errors[2]).find("'weight' on node b differs from the others"),
              std::string::npos)
        << text_of(errors[2]);
    EXPECT_EQ(view->nodes_that_prepared(1), 0);
  }
}

// Moments that differ between nodes, so that a mean shows.
void give_moments(ViewRank& rank) {
  for (const at::Tensor& moment : rank.optimizer.moments()) {
    moment.copy_(progress(rank.world.node_id(), 99, moment.numel()));
  }
  rank.optimizer.set_steps(10 + rank.world.node_id());
}

TEST(AgreementInViews, CountsOnceAllNodesHaveIt) {
  for (const ExchangeOptions& options :
       {ExchangeOptions{.wire = Wire::kInt4}, {ExchangeKind::kRotating, Wire::kFp32}}) {
    run_ranks(ranks_in_view(kThree, {}), [&](World& world) {
      ViewRank rank(world, options);
      rank.first_exchange();
      rank.learn(2, 3);
      give_moments(rank);
      const Floats agreed = rank.together.agreed();
      EXPECT_TRUE(rank.agreement.agree(1, rank.exchange.residuals()));
      EXPECT_EQ(rank.parameters(), agreed);
      for (const at::Tensor& rest : rank.exchange.residuals()) {
        EXPECT_EQ(rest.abs().sum().item<float>(), 0);
      }
      EXPECT_EQ(rank.optimizer.steps(), 12);
      for (const at::Tensor& moment : rank.optimizer.moments()) {
        const at::Tensor mean = 0.4F * progress(0, 99, moment.numel()) +
                                0.4F * progress(1, 99, moment.numel()) +
                                0.2F * progress(2, 99, moment.numel());
        EXPECT_TRUE(at::allclose(moment, mean, 0, 1e-8));
      }
    });
  }
}

// What launchers decide when they hear of it: else they would wait for each other, and the rank for
// them, until its limit.
TEST(ExchangeInViews, TellsOfTroubleThatLaunchersDoNotSee) {
  const auto view = std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 3});
  const auto errors = run_places(in_view(kThree, kIds, view), [](const WorldOptions& place) {
    World world = World::join(place);
    ViewRank rank(world, {});
    rank.first_exchange();
    if (world.node_id() == 2) return;  // its connections end, and its launcher does not say so
    const Floats before = rank.parameters();
    EXPECT_TRUE(rank.exchange.start(1));
    EXPECT_FALSE(rank.exchange.merge(1));
    EXPECT_EQ(rank.parameters(), before);
  });
  for (const std::exception_ptr& error : errors) EXPECT_EQ(text_of(error), "");
}

// By the launchers, or since a node is lost in the middle.
TEST(AgreementInViews, ChangesNothingWhereItDoesNotCount) {
  for (const bool lost : {false, true}) {
    const auto view = std::make_shared<ScriptedView>(
        ScriptedView::Script{.nodes = 3, .refused = {3}, .abandoned = {1, 2}});
    const auto errors = run_places(in_view(kThree, kIds, view), [&](const WorldOptions& place) {
      World world = World::join(place);
      ViewRank rank(world, {.wire = Wire::kInt4});
      rank.first_exchange();
      rank.learn(2, 3);
      give_moments(rank);
      if (lost && world.node_id() == 2) {
        world.abandon("its node is gone");
        return;
      }
      const Floats parameters = rank.parameters();
      const State state = rank.exchange.state();
      const at::Tensor moment = rank.optimizer.moments().front().clone();
      bool also = false;
      EXPECT_FALSE(rank.agreement.agree(1, rank.exchange.residuals(), [&] { also = true; }));
      EXPECT_EQ(also, !lost);
      // A mean of a lost view is of no use any more.
      EXPECT_TRUE(lost || !rank.agreement.average_parameters(2));
      EXPECT_FALSE(rank.agreement.average_parameters(3));
      EXPECT_EQ(rank.parameters(), parameters);
      EXPECT_TRUE(at::equal(rank.optimizer.moments().front(), moment));
      EXPECT_EQ(rank.optimizer.steps(), 10 + world.node_id());
      expect_equal_states(state, rank.exchange.state());
      if (!lost) world.leave();
    });
    for (const std::exception_ptr& error : errors) EXPECT_EQ(text_of(error), "");
    EXPECT_EQ(view->nodes_that_prepared(1), lost ? 0 : 3);
  }
}

}  // namespace
}  // namespace daso::test
