// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "daso/base/error.h"
#include "replica.h"

// What each strategy is by its definition, and what all do besides.
namespace daso::test {
namespace {

TEST(Sync, EqualsOneProcessWithTheWholeBatch) {
  Job job = job_of("sync");
  for (const std::vector<std::string>& nodes : {std::vector<std::string>{"a", "a", "b", "b"},
                                                {"a", "b", "b", "b"},
                                                {"a"},
                                                {"a", "b", "c"}}) {
    job.nodes = nodes;
    std::vector<int> ranks(nodes.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
    const at::Tensor expected = alone(job, ranks);
    for (const at::Tensor& result : results_of(job)) {
      EXPECT_TRUE(at::allclose(result, expected, 1e-5, 1e-5));
    }
  }
}

TEST(Node, EqualsOneProcessPerNode) {
  const Job job = job_of("node");
  const at::Tensor first = alone(job, {0, 1});
  const at::Tensor second = alone(job, {2, 3});
  const std::vector<at::Tensor> results = results_of(job);
  EXPECT_TRUE(at::allclose(results[0], first, 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(results[3], second, 1e-5, 1e-5));
  EXPECT_FALSE(at::allclose(first, second, 1e-2, 1e-2));
}

TEST(None, LeavesEveryRankToItself) {
  const Job job = job_of("none");
  const std::vector<at::Tensor> results = results_of(job);
  EXPECT_TRUE(at::equal(results[1], alone(job, {1})));
}

TEST(Local, WithSkipOneEqualsSync) {
  Job job = job_of("local");
  job.options.schedule.cadence = {.skip = 1, .wait = 1};
  job.nodes = {"a", "b", "b", "b"};
  const at::Tensor expected = alone(job, {0, 1, 2, 3});
  for (const at::Tensor& result : results_of(job)) {
    EXPECT_TRUE(at::allclose(result, expected, 1e-4, 1e-4));
  }
}

TEST(Strategy, RefusesWhatCannotBe) {
  World world = World::alone();
  Job job = job_of("dasso");
  EXPECT_THROW(Replica(world, job), ConfigError);
  job = job_of("daso");
  job.options.exchange = {.kind = ExchangeKind::kRotating, .wire = Wire::kInt8};
  EXPECT_THROW(Replica(world, job), ConfigError);
}

struct WithBuffers : torch::nn::Module {
  WithBuffers() {
    weight = register_parameter("weight", at::ones({3}));
    frozen = register_parameter("frozen", at::zeros({2}), /*requires_grad=*/false);
    mean = register_buffer("mean", at::zeros({5}));
    count = register_buffer("count", at::zeros({1}, at::kLong));
    flag = register_buffer("flag", at::zeros({2}, at::kBool));
  }
  at::Tensor weight, frozen, mean, count, flag;
};

TEST(Strategy, StartsFromRankZeroAndAveragesFloatingBuffersAtEpochEnds) {
  for (const std::string strategy : {"sync", "local", "daso"}) {
    const Job job = job_of(strategy, 1, 2);
    run_ranks(ranks_of(job), [&](World& world) {
      const auto module = std::make_shared<WithBuffers>();
      {
        const at::NoGradGuard no_grad;
        for (const at::Tensor& tensor : {module->weight, module->frozen, module->mean}) {
          tensor.fill_(7 + world.rank());
        }
        module->count.fill_(3 + world.rank());
        module->flag.fill_(world.rank() == 0);
      }
      FlatModel model(module);
      Sgd optimizer(model, {});
      const auto learner = make_strategy(world, model, optimizer, job.options);
      EXPECT_EQ(module->weight.detach()[0].item<float>(), 7);
      EXPECT_EQ(module->frozen[0].item<float>(), 7);
      EXPECT_EQ(module->mean[0].item<float>(), 7);
      EXPECT_EQ(module->count[0].item<std::int64_t>(), 3);
      EXPECT_TRUE(module->flag[0].item<bool>());
      for (std::int64_t batch = 0; batch < 2; ++batch) {
        const StepInfo info = job.run_plan.at(0, batch);
        learner->begin_backward(info);
        module->weight.sum().backward();
        learner->before_step();
        optimizer.step(info.rate);
        module->mean.fill_(world.rank());
        module->count.fill_(world.rank());
        learner->after_step(info);
        EXPECT_FLOAT_EQ(module->mean[4].item<float>(),
                        batch == 0 ? static_cast<float>(world.rank()) : 1.5F);
        EXPECT_EQ(module->count[0].item<std::int64_t>(), world.rank());
      }
    });
  }
}

TEST(Strategy, MeanLossIsThatOfTheRanksItTiesTogether) {
  for (const auto& [strategy, expected] :
       std::vector<std::pair<std::string, std::vector<double>>>{{"none", {1, 2, 3, 4}},
                                                                {"node", {1.5, 1.5, 3.5, 3.5}},
                                                                {"sync", {2.5, 2.5, 2.5, 2.5}},
                                                                {"daso", {2.5, 2.5, 2.5, 2.5}}}) {
    const Job job = job_of(strategy);
    run_ranks(ranks_of(job), [&, wanted = expected](World& world) {
      Replica replica(world, job);
      EXPECT_EQ(replica.strategy->mean_loss(0, 1.0 + world.rank()),
                wanted[static_cast<std::size_t>(world.rank())]);
    });
  }
}

TEST(Strategy, OnlyPlateauSavesACadenceAndGoesOnWithIt) {
  World world = World::alone();
  for (const ScheduleKind kind : {ScheduleKind::kFixed, ScheduleKind::kPlateau}) {
    Job job = job_of("daso", 4);
    job.options.schedule.kind = kind;
    job.options.schedule.cadence = {.skip = 8, .wait = 4};
    job.options.schedule.stall.patience = 0;
    Replica replica(world, job);
    for (const int epoch : {0, 1}) replica.strategy->end_epoch(epoch, 1.0);  // stalls in the second
    Replica other(world, job);
    other.strategy->load_state(replica.strategy->state());
    const State state = other.strategy->state();
    ASSERT_EQ(state.contains("schedule.skip"), kind == ScheduleKind::kPlateau);
    if (kind != ScheduleKind::kPlateau) continue;
    EXPECT_EQ(integer_in(state, "schedule.skip"), 4);
    EXPECT_EQ(integer_in(state, "schedule.wait"), 2);
  }
}

// An optimizer that only says its name.
struct NamedAdamw : Sgd {
  using Sgd::Sgd;
  std::string name() const override { return "adamw"; }
};

TEST(Strategy, WarnsOfAdamw) {
  const Job job = job_of("daso");
  testing::internal::CaptureStderr();
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&](World& world) {
    FlatModel model(Weights(job.sizes).module);
    NamedAdamw optimizer(model, {});
    make_strategy(world, model, optimizer, job.options);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("warning: AdamW"));
}

}  // namespace
}  // namespace daso::test
