// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "replica.h"

// What holds for every strategy with every exchange.
namespace daso::test {
namespace {

struct Kind {
  std::string strategy;
  ExchangeOptions exchange;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all = {{"sync", {}}, {"local", {}}};
  all.push_back({"local", {.kind = ExchangeKind::kRotating, .wire = Wire::kFp32}});
  for (const MergeRule merge : {MergeRule::kCorrected, MergeRule::kPaper}) {
    all.push_back({"daso", {ExchangeKind::kRotating, Wire::kFp32, merge}});
    for (const Wire wire :
         {Wire::kFp32, Wire::kBf16, Wire::kFp16, Wire::kInt8, Wire::kInt4, Wire::kQsgd4}) {
      all.push_back({"daso", {ExchangeKind::kSharded, wire, merge}});
    }
  }
  return all;
}

class Strategies : public testing::TestWithParam<Kind> {
 protected:
  static Job job() {
    Job job = job_of(GetParam().strategy, 4, 7);
    job.options.exchange = GetParam().exchange;
    job.options.schedule.phases = {.epochs = 4, .warmup = 1, .cooldown = 1};
    job.options.schedule.cadence = {.skip = 3, .wait = 2};
    return job;
  }
};

bool same_on_all(Communicator& ranks, const at::Tensor& tensor, Seconds limit) {
  const at::Tensor all = at::empty({ranks.size(), tensor.numel()}, tensor.options());
  ranks.all_gather(tensor.view({1, -1}), all).wait(limit);
  for (int rank = 1; rank < ranks.size(); ++rank) {
    if (!at::equal(all[rank], all[0])) return false;
  }
  return true;
}

TEST_P(Strategies, KeepRanksEqualWithinANodeAndAllAtEpochEnds) {
  for (const std::vector<std::string>& nodes :
       {std::vector<std::string>{"a", "a", "b", "b"}, {"a", "a", "a", "b", "c", "c"}, {"a", "b"}}) {
    Job job = Strategies::job();
    job.nodes = nodes;
    job.after = [](World& world, FlatModel& model, Strategy& strategy, Optimizer& optimizer,
                   const StepInfo& info) {
      strategy.settle();
      const at::Tensor velocity = optimizer.moments().front();
      EXPECT_TRUE(same_on_all(world.node_group(), model.parameters(), world.limit()));
      EXPECT_TRUE(same_on_all(world.node_group(), velocity, world.limit()));
      if (info.batch != info.last) return;
      EXPECT_TRUE(same_on_all(world.everyone(), model.parameters(), world.limit()));
      EXPECT_TRUE(same_on_all(world.everyone(), velocity, world.limit()));
    };
    results_of(job);
  }
}

// Stopped in warm-up, with an exchange in flight, after its merge, at an epoch's end: others go on
// from the saved state.
TEST_P(Strategies, GoOnFromASavedStateWithTheSameBits) {
  struct Saved {
    at::Tensor parameters;
    State optimizer;
    State strategy;
  };
  const Job job = Strategies::job();
  const std::vector<at::Tensor> expected = results_of(job);
  std::map<std::int64_t, std::vector<Saved>> saved;  // by the step to go on with
  for (const std::int64_t stop : {3, 9, 10, 14}) saved[stop].resize(job.nodes.size());
  Job saving = job;
  saving.after = [&](World& world, FlatModel& model, Strategy& strategy, Optimizer& optimizer,
                     const StepInfo& info) {
    const auto stop = saved.find(info.step + 1);
    if (stop == saved.end()) return;
    strategy.settle();
    stop->second[static_cast<std::size_t>(world.rank())] = {model.parameters().clone(),
                                                            optimizer.state(), strategy.state()};
  };
  EXPECT_TRUE(at::equal(results_of(saving)[0], expected[0]));  // saving disturbs nothing
  for (const auto& [stop, states] : saved) {
    run_ranks(ranks_of(job), [&, from = stop, all = &states](World& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      Replica replica(world, job);
      replica.model.parameters().copy_((*all)[rank].parameters);
      replica.optimizer.load_state((*all)[rank].optimizer);
      replica.strategy->load_state((*all)[rank].strategy);
      train(world, job, replica, from);
      EXPECT_TRUE(at::equal(replica.model.parameters(), expected[rank])) << from;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, Strategies, testing::ValuesIn(kinds()));

}  // namespace
}  // namespace daso::test
