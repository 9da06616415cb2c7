// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/gradient_sync.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <numeric>

#include "daso/base/error.h"
#include "daso/comm/link/staged_link.h"
#include "late_lane.h"
#include "run_ranks.h"

namespace daso::test {
namespace {

TEST(Buckets, HoldWholeTensorsUpToTheCap) {
  const std::vector<FlatSpan> spans = {{"a", 0, 4},     {"b", 4, 4},     {"c", 8, 3},
                                       {"big", 11, 20}, {"none", 31, 0}, {"d", 31, 1}};
  const std::vector<Bucket> buckets = cut_buckets(spans, 8);
  ASSERT_EQ(buckets.size(), 4);
  const auto range = [&](std::size_t i) { return std::pair(buckets[i].begin, buckets[i].end); };
  EXPECT_EQ(range(0), std::pair(std::int64_t{0}, std::int64_t{8}));
  EXPECT_EQ(range(1), std::pair(std::int64_t{8}, std::int64_t{11}));
  EXPECT_EQ(range(2), std::pair(std::int64_t{11}, std::int64_t{31}));  // above the cap: alone
  EXPECT_EQ(range(3), std::pair(std::int64_t{31}, std::int64_t{32}));
  EXPECT_EQ(buckets[3].spans, 2);
  EXPECT_THROW(cut_buckets(spans, 0), ConfigError);
}

// Sizes that do not divide, one parameter that nobody uses, one that only rank 0 uses.
struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", torch::nn::Linear(7, 11));
    unused = register_parameter("unused", at::ones({13}));
    sometimes = register_parameter("sometimes", at::ones({3}));
    last = register_module("last", torch::nn::Linear(11, 3));
  }
  at::Tensor forward(const at::Tensor& input, bool with_sometimes) {
    const at::Tensor output = last(at::tanh(first(input)));
    return with_sometimes ? output * sometimes : output;
  }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear last{nullptr};
  at::Tensor unused;
  at::Tensor sometimes;
};

// Thread ranks share torch's generators, so values come from formulas.
std::shared_ptr<Net> net() {
  auto module = std::make_shared<Net>();
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : module->parameters()) {
    parameter.copy_(at::sin(at::arange(parameter.numel(), at::kFloat)).view(parameter.sizes()));
  }
  return module;
}

at::Tensor batch(int rank, int pass) {
  return at::cos(at::arange(4 * 7, at::kFloat) * (rank + 1) + pass).view({4, 7});
}

at::Tensor loss(Net& module, int rank, int pass) {
  return module.forward(batch(rank, pass), rank == 0).square().mean();
}

// What one process gets that computes every rank's gradients by itself.
at::Tensor mean_gradients(int ranks, int passes) {
  const auto module = net();
  const FlatModel flat(module);
  at::Tensor sum = at::zeros_like(flat.gradients(), at::kDouble);
  for (int rank = 0; rank < ranks; ++rank) {
    flat.gradients().zero_();
    for (int pass = 0; pass < passes; ++pass) loss(*module, rank, pass).backward();
    sum += flat.gradients();
  }
  return (sum / ranks).to(at::kFloat);
}

struct Case {
  std::vector<std::string> nodes;  // of each rank
  Reach reach = Reach::kNode;
  std::int64_t bucket_elements = 1;
};

class GradientSyncs : public testing::TestWithParam<Case> {};

TEST_P(GradientSyncs, GiveEveryRankTheMean) {
  const auto& [nodes, reach, bucket_elements] = GetParam();
  const int ranks = static_cast<int>(nodes.size());
  const at::Tensor expected = mean_gradients(ranks, 1);
  std::vector<at::Tensor> results(nodes.size());
  run_ranks({.ranks = ranks, .nodes = nodes}, [&](World& world) {
    const auto module = net();
    FlatModel flat(module);
    GradientSync sync(world, flat, {.farthest = reach, .bucket_elements = bucket_elements});
    for (int step = 0; step < 3; ++step) {  // the same every time: nothing is left of a step
      flat.zero_gradients();
      sync.begin(reach, step);
      loss(*module, world.rank(), 0).backward();
      sync.finish();
    }
    results[static_cast<std::size_t>(world.rank())] = flat.gradients().clone();
  });
  for (const at::Tensor& result : results) {
    EXPECT_TRUE(at::allclose(result, expected, 1e-5, 1e-6));
    EXPECT_TRUE(at::equal(result, results.front()));  // the same bits on all ranks
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t bucket : {1, 40, 1 << 20}) {
    for (const int ranks : {1, 2, 3}) {
      all.push_back(
          {std::vector<std::string>(static_cast<std::size_t>(ranks), "a"), Reach::kNode, bucket});
    }
    for (const std::vector<std::string>& nodes :
         std::vector<std::vector<std::string>>{{"a"},
                                               {"a", "a"},
                                               {"a", "b"},
                                               {"a", "a", "b", "b"},
                                               {"a", "a", "a", "b"},
                                               {"a", "b", "b", "c", "c", "c"},
                                               {"a", "b", "b", "a", "a"}}) {
      all.push_back({nodes, Reach::kWorld, bucket});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, GradientSyncs, testing::ValuesIn(cases()));

// As on a device, whose gradients go to the host and back.
TEST(GradientSync, GivesTheMeanHoweverLateCopiesAre) {
  const std::vector<std::string> nodes = {"a", "a", "b"};
  const at::Tensor expected = mean_gradients(3, 1);
  for (const Reach reach : {Reach::kWorld, Reach::kNode}) {
    run_ranks({.ranks = 3, .nodes = nodes}, [&](World& world) {
      const auto module = net();
      FlatModel flat(module);
      const std::shared_ptr<Lane> lane = late_lane();
      StagedLink node(world.node_link("late"), at::kCPU, lane, {.text = "late"}, world.guard());
      GradientSync sync(world, flat, {.farthest = reach, .bucket_elements = 40},
                        {.lane = lane, .node = &node});
      for (int step = 0; step < 2; ++step) {
        flat.zero_gradients();
        sync.begin(reach, step);
        loss(*module, world.rank(), 0).backward();
        sync.finish();
      }
      const at::Tensor own = flat.gradients();
      const at::Tensor of_first_two = mean_gradients(2, 1);
      if (reach == Reach::kWorld) {
        EXPECT_TRUE(at::allclose(own, expected, 1e-5, 1e-6));
      } else if (world.node() == 0) {
        EXPECT_TRUE(at::allclose(own, of_first_two, 1e-5, 1e-6));
      }
    });
  }
}

TEST(GradientSync, OfANodeLeavesOtherNodesAlone) {
  const at::Tensor of_first_two = mean_gradients(2, 1);
  run_ranks({.ranks = 3, .nodes = {"a", "a", "b"}}, [&](World& world) {
    const auto module = net();
    FlatModel flat(module);
    GradientSync sync(world, flat, {.farthest = Reach::kWorld, .bucket_elements = 40});
    flat.zero_gradients();
    sync.begin(Reach::kNode, 0);
    loss(*module, world.rank(), 0).backward();
    sync.finish();
    EXPECT_EQ(at::allclose(flat.gradients(), of_first_two, 1e-5, 1e-6), world.node() == 0);
    EXPECT_EQ(sync.costs().bytes_between_nodes, 0);
  });
}

TEST(GradientSync, SendsOnceAfterSeveralBackwards) {
  const at::Tensor expected = mean_gradients(2, 3);
  run_ranks({.ranks = 2}, [&](World& world) {
    const auto module = net();
    FlatModel flat(module);
    GradientSync sync(world, flat, {.farthest = Reach::kNode, .bucket_elements = 40});
    for (int pass = 0; pass < 2; ++pass) loss(*module, world.rank(), pass).backward();
    sync.begin(Reach::kNode, 0);
    loss(*module, world.rank(), 2).backward();
    sync.finish();
    EXPECT_TRUE(at::allclose(flat.gradients(), expected, 1e-5, 1e-6));
  });
}

TEST(GradientSync, RefusesABackwardAfterTheLast) {
  World world = World::alone();
  const auto module = net();
  FlatModel flat(module);
  GradientSync sync(world, flat, {.farthest = Reach::kNode, .bucket_elements = 40});
  sync.begin(Reach::kNode, 0);
  loss(*module, 0, 0).backward();
  EXPECT_THROW(loss(*module, 0, 1).backward(), Error);
}

TEST(GradientSync, NoticesGradientsThatLeftTheFlatTensor) {
  World world = World::alone();
  const auto module = net();
  FlatModel flat(module);
  GradientSync sync(world, flat, {.farthest = Reach::kNode, .bucket_elements = 40});
  sync.begin(Reach::kNode, 0);
  module->zero_grad();
  loss(*module, 0, 0).backward();
  EXPECT_THROW(sync.finish(), Error);
}

// What loss scaling rests on: ranks that share a mean see alike whether it is finite.
TEST(GradientSync, MakesTheMeanNonFiniteOnAllWithinReach) {
  for (const Reach reach : {Reach::kNode, Reach::kWorld}) {
    run_ranks({.ranks = 4, .nodes = {"a", "a", "b", "b"}}, [&](World& world) {
      const auto module = net();
      FlatModel flat(module);
      GradientSync sync(world, flat,
                        {.farthest = Reach::kWorld, .bucket_elements = 40, .finite = false});
      flat.zero_gradients();
      sync.begin(reach, 0);
      const float factor = world.rank() == 1 ? std::numeric_limits<float>::infinity() : 1.0F;
      (loss(*module, world.rank(), 0) * factor).backward();
      sync.finish();
      const bool finite = flat.gradients().isfinite().all().item<bool>();
      EXPECT_EQ(finite, reach == Reach::kNode && world.node() == 1);
    });
  }
}

TEST(GradientSync, NamesTheTensorAndTheRankOfANonFiniteGradient) {
  World world = World::alone();
  const auto module = net();
  FlatModel flat(module);
  GradientSync sync(world, flat, {.farthest = Reach::kNode, .bucket_elements = 1 << 20});
  sync.begin(Reach::kNode, 7);
  loss(*module, 0, 0).backward();
  module->first->bias.mutable_grad()[3] = std::numeric_limits<float>::infinity();
  try {
    sync.finish();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("'first.bias'"), testing::HasSubstr("rank 0"),
                               testing::HasSubstr("step 7")));
  }
}

// Backward fills the layout from its front, so the first bucket is on its way before backward ends.
TEST(GradientWatch, HandsOutBucketsInOrderWhileBackwardRuns) {
  const auto module = net();
  const FlatModel flat(module);
  std::vector<std::size_t> order;
  std::vector<std::size_t> when_first_layer_began;
  GradientWatch watch(flat, cut_buckets(flat.parameter_spans(), 40),
                      [&](std::size_t bucket) { order.push_back(bucket); });
  const at::Tensor input = batch(0, 0);
  watch.arm();
  const at::Tensor hidden = at::tanh(module->first(input));
  hidden.register_hook([&](const at::Tensor&) { when_first_layer_began = order; });
  module->last(hidden).square().mean().backward();
  EXPECT_FALSE(when_first_layer_began.empty());
  EXPECT_LT(when_first_layer_began.size(), watch.buckets().size());
  watch.flush();
  std::vector<std::size_t> all(watch.buckets().size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(order, all);
}

TEST(GradientWatch, IsSilentUnlessArmedAndAfterItsEnd) {
  const auto module = net();
  const FlatModel flat(module);
  int calls = 0;
  {
    const GradientWatch watch(flat, cut_buckets(flat.parameter_spans(), 40),
                              [&](std::size_t) { ++calls; });
    loss(*module, 0, 0).backward();
  }
  loss(*module, 0, 0).backward();
  EXPECT_EQ(calls, 0);
}

// In a loop of one's own they are easily forgotten.
TEST(GradientWatch, SaysWhichCallIsMissing) {
  const auto module = net();
  const FlatModel flat(module);
  GradientWatch watch(flat, cut_buckets(flat.parameter_spans(), 40), [](std::size_t) {});
  const auto message_of = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(message_of([&] { watch.flush(); }),
              testing::HasSubstr("call begin_backward() before the last backward"));
  watch.arm();
  EXPECT_THAT(message_of([&] { watch.arm(); }),
              testing::HasSubstr("begin_backward() was called twice"));
}

}  // namespace
}  // namespace daso::test
