// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replica.h"
#include "scripted_view.h"

// Runs that go from one view to the next in the middle of an epoch.
namespace daso::test {
namespace {

using Did = StrategyEvent::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

const std::map<std::string, int> kNodeIds = {{"a", 0}, {"b", 1}, {"c", 2}};

// How a run is cut into views: the script of each, and the number that the next one begins with.
struct Part {
  ScriptedView::Script script;
  std::vector<std::string> nodes;
  std::int64_t first = 0;
};

// What a rank leaves to the next view.
struct Left {
  at::Tensor parameters;
  State optimizer;
  State strategy;
  std::int64_t next_step = 0;
};

struct Outcome {
  std::vector<at::Tensor> parameters;   // by rank, in the end
  std::vector<std::int64_t> ended;      // the steps after which views ended, as rank 0 saw it
  std::vector<StrategyEvents> entered;  // what rank 0 did on entering the next views
  StrategyEvents undone;                // what rank 0 says of exchanges that a view's end has undone
};

// The rest of the run in this view; true: it is over.
bool train_in_view(Replica& replica, const Job& job, std::int64_t& step) {
  const std::int64_t batches = job.run_plan.batches;
  for (; step < job.run_plan.epochs * batches; ++step) {
    const int epoch = static_cast<int>(step / batches);
    const StepInfo info = job.run_plan.at(epoch, step % batches);
    replica.step(job, info);
    if (replica.strategy->view_ended()) {
      ++step;
      return false;
    }
  }
  return true;
}

// All ranks of the first parts' nodes that are in the next part too stay, in their order.
Outcome run_parts(const Job& job, const std::vector<Part>& parts) {
  Outcome outcome;
  std::vector<Left> left(job.nodes.size());
  for (std::size_t number = 0; number < parts.size(); ++number) {
    const Part& part = parts[number];
    const RankOptions ranks =
        in_view(part.nodes, kNodeIds, std::make_shared<ScriptedView>(part.script));
    outcome.parameters.assign(part.nodes.size(), {});
    run_ranks(ranks, [&](World& world) {
      Replica replica(world, job);
      Left& own = left[static_cast<std::size_t>(world.rank())];
      if (number > 0) {
        replica.model.parameters().copy_(own.parameters);
        replica.optimizer.load_state(own.optimizer);
        replica.strategy->load_state(own.strategy);
        const StrategyEvents events = replica.strategy->enter_view(part.first);
        if (world.rank() == 0) outcome.entered.push_back(events);
      }
      const auto take_undone = [&] {
        const StrategyEvents undone = replica.strategy->take_undone();
        if (world.rank() != 0) return;
        outcome.undone.insert(outcome.undone.end(), undone.begin(), undone.end());
      };
      take_undone();
      const bool over = train_in_view(replica, job, own.next_step);
      EXPECT_EQ(over, number + 1 == parts.size());
      if (world.rank() == 0 && !over) outcome.ended.push_back(own.next_step - 1);
      own.strategy = replica.strategy->state();
      take_undone();
      own.optimizer = replica.optimizer.state();
      own.parameters = replica.model.parameters().clone();
      outcome.parameters[static_cast<std::size_t>(world.rank())] = own.parameters;
    });
  }
  return outcome;
}

// skip 4, wait 2, epochs of 10 steps: exchanges 0, 1, 2 start after steps 0, 4, 8, and are merged
// after 2, 6, 9; agreement 3 is after step 9.
Job cut_job(const std::string& strategy) {
  Job job = job_of(strategy);
  job.options.exchange.wire = Wire::kFp32;  // leaves nothing over that a change of view would clear
  return job;
}

// The view changes, the nodes do not: the run is that of a world for good, bit for bit.
void expect_the_run_without_views(const Job& job, const Part& first, std::int64_t next,
                                  const StrategyEvents& entered, std::int64_t ended) {
  const std::vector<at::Tensor> expected = results_of(job);
  const Outcome outcome =
      run_parts(job, {first, {.script = {.nodes = 2}, .nodes = job.nodes, .first = next}});
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_TRUE(at::equal(outcome.parameters[rank], expected[rank])) << rank;
  }
  EXPECT_THAT(outcome.entered, ElementsAre(entered));
  EXPECT_THAT(outcome.ended, ElementsAre(ended));
}

TEST(Views, StartThatWasPutOffBeginsInTheNext) {
  for (const ExchangeKind kind : {ExchangeKind::kSharded, ExchangeKind::kRotating}) {
    for (const MergeRule rule : {MergeRule::kCorrected, MergeRule::kPaper}) {
      Job job = cut_job("daso");
      job.options.exchange.kind = kind;
      job.options.exchange.merge = rule;
      expect_the_run_without_views(job,
                                   {.script = {.nodes = 2, .refused = {1}}, .nodes = job.nodes},
                                   /*next=*/1, {{Did::kStart, 1}}, /*ended=*/4);
    }
  }
}

TEST(Views, AreLeftAfterAMergeWhereTheyHaveEnded) {
  const Job job = cut_job("daso");
  expect_the_run_without_views(job, {.script = {.nodes = 2, .ended = true}, .nodes = job.nodes},
                               /*next=*/1, {}, /*ended=*/2);
}

TEST(Views, AgreementsAreDoneAgainNeverDropped) {
  for (const std::string strategy : {"daso", "local"}) {
    const Job job = cut_job(strategy);
    expect_the_run_without_views(job, {.script = {.nodes = 2, .refused = {3}}, .nodes = job.nodes},
                                 /*next=*/3, {{Did::kAgree, 3}}, /*ended=*/9);
    // Begun and given up: with a number of the next view.
    expect_the_run_without_views(
        job, {.script = {.nodes = 2, .refused = {}, .abandoned = {3}}, .nodes = job.nodes},
        /*next=*/4, {{Did::kAgree, 4}}, /*ended=*/9);
  }
}

TEST(Views, BlockingAveragesAreDoneAgain) {
  const Job job = cut_job("local");
  expect_the_run_without_views(
      job, {.script = {.nodes = 2, .refused = {}, .abandoned = {1}}, .nodes = job.nodes},
      /*next=*/2, {{Did::kAverage, 2}}, /*ended=*/4);
}

// Gradients that do not depend on the parameters: after the agreement every node has the mean of
// what all have learned, whatever was exchanged before.
Job mean_job() {
  Job job = cut_job("daso");
  job.options.schedule.phases.epochs = 1;
  job.run_plan.epochs = 1;
  job.gradient = [](const at::Tensor& value, int rank, std::int64_t step) {
    return at::cos(at::arange(value.numel(), at::kFloat) * (rank + 1) + step);
  };
  job.momentum = 0;
  return job;
}

void expect_mean_of_all(const Job& job, const Outcome& outcome) {
  const at::Tensor mean = alone(job, {0, 1, 2, 3});
  for (const at::Tensor& parameters : outcome.parameters) {
    EXPECT_TRUE(at::allclose(parameters, mean, 0, 2e-6));
  }
}

TEST(Views, SkippedStartsAndAbandonedMergesLoseNoProgress) {
  const Job job = mean_job();
  // 1 was put off, but others had begun it: 2 is the next.
  const Outcome skipped =
      run_parts(job, {{.script = {.nodes = 2, .refused = {1}}, .nodes = job.nodes},
                      {.script = {.nodes = 2}, .nodes = job.nodes, .first = 2}});
  EXPECT_THAT(skipped.entered, ElementsAre(IsEmpty()));
  EXPECT_EQ(skipped.undone, (StrategyEvents{{Did::kPutOff, 1}, {Did::kAbandon, 1}}));
  expect_mean_of_all(job, skipped);
  // The merge of 1 is due after step 6.
  const Outcome abandoned =
      run_parts(job, {{.script = {.nodes = 2, .refused = {}, .abandoned = {1}}, .nodes = job.nodes},
                      {.script = {.nodes = 2}, .nodes = job.nodes, .first = 2}});
  EXPECT_THAT(abandoned.ended, ElementsAre(6));
  EXPECT_THAT(abandoned.entered, ElementsAre(IsEmpty()));
  EXPECT_EQ(abandoned.undone, (StrategyEvents{{Did::kAbandon, 1}}));
  expect_mean_of_all(job, abandoned);
  // The last merge and the agreement are due after the same step.
  const Outcome at_the_end = run_parts(
      job, {{.script = {.nodes = 2, .refused = {3}, .abandoned = {2}}, .nodes = job.nodes},
            {.script = {.nodes = 2}, .nodes = job.nodes, .first = 3}});
  EXPECT_THAT(at_the_end.ended, ElementsAre(9));
  EXPECT_THAT(at_the_end.entered, ElementsAre(StrategyEvents{{Did::kAgree, 3}}));
  EXPECT_EQ(at_the_end.undone, (StrategyEvents{{Did::kAbandon, 2}, {Did::kPutOff, 3}}));
  expect_mean_of_all(job, at_the_end);
}

// Node b is gone after step 4 of a run whose gradients pull every node to the same: what is left
// trains on, and what it was given before stays. Alone it counts its exchanges.
TEST(Views, NodeThatIsLeftAloneTrainsOn) {
  Job job = mean_job();
  job.gradient = [](const at::Tensor& value, int, std::int64_t step) {
    return at::cos(at::arange(value.numel(), at::kFloat) + step);
  };
  const Outcome outcome =
      run_parts(job, {{.script = {.nodes = 2, .refused = {1}}, .nodes = job.nodes},
                      {.script = {.nodes = 1}, .nodes = {"a", "a"}, .first = 1}});
  const at::Tensor expected = alone(job, {0});
  for (const at::Tensor& parameters : outcome.parameters) {
    EXPECT_TRUE(at::allclose(parameters, expected, 0, 2e-6));
  }
}

// What rounding left belongs to owners that may be gone.
TEST(Views, ClearRests) {
  Job job = mean_job();
  job.options.exchange.wire = Wire::kInt4;
  const auto view = std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 2});
  run_ranks(in_view(job.nodes, kNodeIds, view), [&](World& world) {
    Replica replica(world, job);
    for (std::int64_t step = 0; step < 3; ++step) replica.step(job, job.run_plan.at(0, step));
    const auto rest = [&] {
      return replica.strategy->state().at("exchange.rest").abs().sum().item<float>();
    };
    EXPECT_GT(rest(), 0);
    const at::Tensor anchor = replica.strategy->state().at("exchange.anchor");
    EXPECT_THAT(replica.strategy->enter_view(1), IsEmpty());
    EXPECT_EQ(rest(), 0);
    EXPECT_TRUE(at::equal(replica.strategy->state().at("exchange.anchor"), anchor));
  });
}

// The donor goes on with an exchange in flight, the joiner has it in its anchor: from then on both
// are one run, in which the joiner had learned nothing before.
TEST(Views, JoinerTakesTheAnchorWithWhatIsInFlight) {
  Job job = mean_job();
  job.nodes = {"a", "b"};
  run_ranks(in_view(job.nodes, kNodeIds,
                    std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 2})),
            [&](World& world) {
              Replica replica(world, job);
              for (std::int64_t step = 0; step < 6; ++step) {
                replica.step(job, job.run_plan.at(0, step));
              }
              const State joiner = replica.strategy->state_for_joiner();
              replica.step(job, job.run_plan.at(0, 6));  // merges
              EXPECT_TRUE(at::equal(joiner.at("exchange.anchor"),
                                    replica.strategy->state().at("exchange.anchor")));
              replica.model.parameters().copy_(joiner.at("exchange.anchor").view({-1}));
              replica.strategy->load_state(joiner);
              replica.strategy->enter_view(2);
              for (std::int64_t step = 6; step < 10; ++step) {
                replica.step(job, job.run_plan.at(0, step));
              }
              EXPECT_FALSE(replica.strategy->view_ended());
            });
}

}  // namespace
}  // namespace daso::test
