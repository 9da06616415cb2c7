// SPDX-License-Identifier: Apache-2.0
#include "daso/global/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <cmath>
#include <functional>
#include <map>

#include "daso/base/error.h"
#include "daso/global/course.h"
#include "daso/model/large_tensor.h"
#include "daso/optim/sgd.h"
#include "run_ranks.h"

// Expected values are closed forms, or what one process gets that does the work of all ranks.
namespace daso::test {
namespace {

using testing::HasSubstr;

// Sizes that divide by nothing, so that slices, segments and blocks end in the middle of tensors.
struct Weights : torch::nn::Module {
  explicit Weights(std::vector<std::int64_t> sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      tensors.push_back(
          register_parameter(fmt::format("w{}", i), at::sin(at::arange(sizes[i], at::kFloat))));
    }
  }
  std::vector<at::Tensor> tensors;
};

const std::vector<std::int64_t> kSizes = {700, 1, 513, 40, 1300};

// A gradient of every element: what an element, a rank and a step make of its value.
using Gradient = std::function<at::Tensor(const at::Tensor& value, int rank, std::int64_t step)>;

// Differs between ranks and steps, pulls towards a point of its own.
at::Tensor pull(const at::Tensor& value, int rank, std::int64_t step) {
  const at::Tensor target = at::cos(at::arange(value.numel(), at::kFloat) * (rank + 1) + step);
  return 0.5 * (value - target);
}

struct Job {
  std::vector<std::string> nodes = {"a", "a", "b", "b"};
  StrategyOptions options;
  Course course;
  Gradient gradient = pull;
  double momentum = 0.9;
  std::vector<std::int64_t> sizes = kSizes;
  // Called on every rank, after each step.
  std::function<void(World&, FlatModel&, Strategy&, Optimizer&, const When&)> after = {};
};

double constant_rate(std::int64_t) { return 0.1; }

Job job_of(const std::string& strategy, int epochs = 2, std::int64_t batches = 10) {
  Job job;
  job.options.name = strategy;
  job.options.schedule = {.kind = ScheduleKind::kFixed,
                          .phases = {.epochs = epochs},
                          .cadence = {.skip = 4, .wait = 2}};
  job.options.bucket_elements = 600;
  job.course = {.epochs = epochs, .batches = batches, .rate = constant_rate};
  return job;
}

// One rank's replica and what drives it.
struct Replica {
  Replica(World& world, const Job& job)
      : weights(std::make_shared<Weights>(job.sizes)),
        model(weights),
        optimizer(model, {.momentum = job.momentum}),
        strategy(make_strategy(world, model, optimizer, job.options)),
        rank(world.rank()) {}

  void step(const Job& job, const When& when) {
    model.zero_gradients();
    strategy->begin_backward(when);
    at::Tensor loss = at::zeros({});
    for (const at::Tensor& tensor : weights->tensors) {
      loss = loss + (tensor * job.gradient(tensor.detach(), rank, when.step)).sum();
    }
    loss.backward();
    strategy->before_step();
    optimizer.step(when.rate);
    strategy->after_step(when);
  }

  std::shared_ptr<Weights> weights;
  FlatModel model;
  Sgd optimizer;
  std::unique_ptr<Strategy> strategy;
  int rank;
};

void train(World& world, const Job& job, Replica& replica, std::int64_t from = 0) {
  for (int epoch = 0; epoch < job.course.epochs; ++epoch) {
    for (std::int64_t batch = 0; batch < job.course.batches; ++batch) {
      const When when = job.course.at(epoch, batch);
      if (when.step < from) continue;
      replica.step(job, when);
      if (job.after) job.after(world, replica.model, *replica.strategy, replica.optimizer, when);
      if (batch == when.last) replica.strategy->end_epoch(epoch, 1.0);
    }
  }
}

RankOptions ranks_of(const Job& job) {
  return {.ranks = static_cast<int>(job.nodes.size()), .nodes = job.nodes};
}

// The parameters of every rank in the end.
std::vector<at::Tensor> results_of(const Job& job) {
  std::vector<at::Tensor> results(job.nodes.size());
  run_ranks(ranks_of(job), [&](World& world) {
    Replica replica(world, job);
    train(world, job, replica);
    results[static_cast<std::size_t>(world.rank())] = replica.model.parameters().clone();
  });
  return results;
}

// One process that takes the mean of the gradients of `ranks`.
at::Tensor alone(const Job& job, const std::vector<int>& ranks) {
  Job single = job;
  single.options.name = "none";
  single.gradient = [&](const at::Tensor& value, int, std::int64_t step) {
    at::Tensor sum = at::zeros_like(value, at::kDouble);
    for (const int rank : ranks) sum += job.gradient(value, rank, step);
    return (sum / static_cast<double>(ranks.size())).to(at::kFloat);
  };
  World world = World::alone();
  Replica replica(world, single);
  train(world, single, replica);
  return replica.model.parameters().clone();
}

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

// Identical nodes with a constant gradient: `corrected` loses nothing, `paper` keeps
// f = 1 - S P / (skip (2 S + P)) of every round.
TEST(Daso, KeepsTheProgressThatItsRuleKeeps) {
  constexpr int kRounds = 6;
  constexpr int kSkip = 4;
  for (const int wait : {1, 2, 4}) {
    for (const MergeRule rule : {MergeRule::kCorrected, MergeRule::kPaper}) {
      Job job = job_of("daso", 1, kRounds * kSkip + 1);
      job.nodes = {"a", "b", "c"};
      job.options.schedule.cadence = {.skip = kSkip, .wait = wait};
      job.options.exchange = {.wire = Wire::kFp32, .merge = rule};
      job.gradient = [](const at::Tensor& value, int, std::int64_t) {
        return at::ones_like(value);
      };
      job.momentum = 0;
      // The first start is after step 0; the round of the last merge is whole if wait <= skip, and
      // is merged by the end of the epoch at the latest.
      const double lost = rule == MergeRule::kPaper ? wait * 3.0 / (2.0 * wait + 3.0) : 0;
      const double steps = kRounds * kSkip + 1 - kRounds * lost;
      const FlatModel start(std::make_shared<Weights>(job.sizes));
      for (const at::Tensor& result : results_of(job)) {
        const at::Tensor moved = (start.parameters() - result).narrow(0, 0, start.elements());
        EXPECT_LT((moved - 0.1 * steps).abs().max().item<double>(), 2e-5) << wait;
      }
    }
  }
}

// Gradients that do not depend on the parameters: the weighted mean over the nodes moves as if
// there were no exchanges.
TEST(Daso, CorrectedLeavesTheWeightedMeanUnchanged) {
  Job job = job_of("daso", 1, 23);
  job.nodes = {"a", "a", "a", "b", "c", "c"};
  job.options.exchange.wire = Wire::kFp32;
  job.gradient = [](const at::Tensor& value, int rank, std::int64_t step) {
    return at::cos(at::arange(value.numel(), at::kFloat) * (rank + 1) + step);
  };
  job.momentum = 0;
  std::vector<at::Tensor> before_the_end(job.nodes.size());
  job.after = [&](World& world, FlatModel& model, Strategy&, Optimizer&, const When& when) {
    if (when.batch == when.last - 1) {
      before_the_end[static_cast<std::size_t>(world.rank())] = model.parameters().clone();
    }
  };
  results_of(job);
  at::Tensor mean = at::zeros_like(before_the_end[0], at::kDouble);
  for (const at::Tensor& one : before_the_end) mean += one / 6.0;
  Job shorter = job;
  shorter.course.batches = 22;
  shorter.after = {};
  EXPECT_TRUE(at::allclose(mean, alone(shorter, {0, 1, 2, 3, 4, 5}).to(at::kDouble), 0, 2e-6));
  EXPECT_FALSE(at::allclose(before_the_end[0], before_the_end[5], 0, 1e-3));
}

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
                   const When& when) {
      strategy.settle();
      const at::Tensor velocity = optimizer.moments().front();
      EXPECT_TRUE(same_on_all(world.node_group(), model.parameters(), world.limit()));
      EXPECT_TRUE(same_on_all(world.node_group(), velocity, world.limit()));
      if (when.batch != when.last) return;
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
                     const When& when) {
    const auto stop = saved.find(when.step + 1);
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

TEST(Daso, ShardedEqualsRotatingBitForBit) {
  for (const std::vector<std::string>& nodes : {std::vector<std::string>{"a", "a", "b", "b"},
                                                {"a", "a", "a", "b", "b", "c"},
                                                {"a", "b", "b", "a", "a"}}) {
    Job job = job_of("daso");
    job.nodes = nodes;
    job.options.exchange = {.kind = ExchangeKind::kSharded, .wire = Wire::kFp32};
    const std::vector<at::Tensor> sharded = results_of(job);
    job.options.exchange.kind = ExchangeKind::kRotating;
    const std::vector<at::Tensor> rotating = results_of(job);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_TRUE(at::equal(sharded[i], rotating[i])) << i;
    }
  }
}

TEST(Daso, RandomRoundingComesFromTheSeedAlone) {
  Job job = job_of("daso");
  job.options.exchange = {.wire = Wire::kQsgd4, .seed = 3};
  const std::vector<at::Tensor> first = results_of(job);
  const std::vector<at::Tensor> again = results_of(job);
  job.options.exchange.seed = 4;
  const std::vector<at::Tensor> other = results_of(job);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(at::equal(first[i], again[i])) << i;
    EXPECT_FALSE(at::equal(first[i], other[i])) << i;
  }
}

// The anchor is what has been transmitted. It trails the true mean by what is in flight and by what
// rounding has left: with nothing new to send, less than two quanta, however many exchanges ago.
TEST(Daso, TransmittedSumStaysWithinTwoQuantaOfTheTrueOne) {
  constexpr std::int64_t kSteps = 1001;
  Job job = job_of("daso", 1, kSteps + 3);
  job.nodes = {"a", "b"};
  job.options.schedule.cadence = {.skip = 1, .wait = 1};
  job.sizes = {256};
  job.momentum = 0;
  job.gradient = [](const at::Tensor& value, int rank, std::int64_t step) {
    if (step >= kSteps) return at::zeros_like(value);
    const at::Tensor index = at::arange(value.numel(), at::kDouble);
    return at::sin(index * index + 1e3 * static_cast<double>(step + 7919 * rank)).to(at::kFloat);
  };
  std::vector<at::Tensor> parameters(2);
  std::vector<at::Tensor> anchors(2);
  double largest = 0;  // difference that was sent, on rank 0
  job.after = [&](World& world, FlatModel& model, Strategy& strategy, Optimizer&,
                  const When& when) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const at::Tensor anchor = strategy.state().at("exchange.anchor").view({-1});
    if (rank == 0 && when.step < kSteps) {
      largest = std::max(largest, (model.parameters() - anchor).abs().max().item<double>());
    }
    if (when.step == kSteps) {  // the last change was sent with it, and is not merged yet
      parameters[rank] = model.parameters().clone();
    }
    if (when.step == kSteps + 1) anchors[rank] = anchor.clone();
  };
  results_of(job);
  const at::Tensor mean = (parameters[0].to(at::kDouble) + parameters[1].to(at::kDouble)) / 2;
  EXPECT_TRUE(at::equal(anchors[0], anchors[1]));
  EXPECT_LT((anchors[0] - mean).abs().max().item<double>(), 2 * largest / 127);
  EXPECT_GT(largest, 0.05);
}

TEST(Daso, MovesAWeightOfOneBySmallSteps) {
  for (const Wire wire : {Wire::kFp32, Wire::kBf16, Wire::kFp16, Wire::kInt8}) {
    Job job = job_of("daso", 1, 101);
    job.nodes = {"a", "b"};
    job.options.exchange.wire = wire;
    job.sizes = {3};
    job.momentum = 0;
    job.course.rate = [](std::int64_t) { return 1e-3; };
    job.gradient = [](const at::Tensor& value, int, std::int64_t) { return at::ones_like(value); };
    const at::Tensor start = at::sin(at::arange(3, at::kFloat));
    for (const at::Tensor& result : results_of(job)) {
      const at::Tensor moved = start - result.narrow(0, 0, 3);
      EXPECT_LT((moved - 0.101).abs().max().item<double>(), 1e-4) << name_of(wire);
    }
  }
}

// What each rank threw.
std::vector<std::exception_ptr> errors_of(
    const Job& job, const std::function<void(World&, Replica&, const When&)>& meddle) {
  return run_places(ranks_of(job), [&](const WorldOptions& options) {
    World world = World::join(options);
    try {
      Replica replica(world, job);
      Job meddled = job;
      meddled.after = [&](World& w, FlatModel&, Strategy&, Optimizer&, const When& when) {
        meddle(w, replica, when);
      };
      train(world, meddled, replica);
    } catch (const PeerError&) {
      throw;
    } catch (const std::exception& error) {
      world.abandon(error.what());
      throw;
    }
  });
}

void flip_lowest_bit(const at::Tensor& tensor, std::int64_t element) {
  float& value = floats(tensor)[static_cast<std::size_t>(element)];
  value = std::nextafter(value, 1e9F);
}

// All ranks end; at least one names the cause, and the others learn it from that one.
void expect_all_name(const std::vector<std::exception_ptr>& errors,
                     const std::vector<std::string>& words) {
  bool found = false;
  for (const std::exception_ptr& error : errors) {
    EXPECT_NE(exit_code_of(error), 0);
    found = found || exit_code_of(error) == kExitBug;
    for (const std::string& word : words) EXPECT_THAT(text_of(error), HasSubstr(word));
  }
  EXPECT_TRUE(found);
}

TEST(Daso, FindsABitFlippedInANodesAnchor) {
  Job job = job_of("daso");
  job.options.exchange.wire = Wire::kInt8;
  const auto errors = errors_of(job, [](World& world, Replica& replica, const When& when) {
    if (when.step != 3 || world.node() != 1) return;  // after a merge, before the next start
    State state = replica.strategy->state();
    // w4 is first in the layout: rank 2 keeps the first half of the blocks, rank 3 the second.
    if (world.local_rank() == 0) flip_lowest_bit(state.at("exchange.anchor"), 100);
    replica.strategy->load_state(state);
  });
  expect_all_name(errors, {"'w4'", "anchor"});
}

TEST(Daso, FindsABitFlippedInOneRanksParameters) {
  Job job = job_of("daso");
  const auto errors = errors_of(job, [](World& world, Replica& replica, const When& when) {
    if (when.step == 3 && world.rank() == 2) flip_lowest_bit(replica.weights->tensors[2], 5);
  });
  expect_all_name(errors, {"'w2'", "rank 3 differs from that on rank 2"});
}

TEST(Strategy, EndsAllRanksWhenAGradientIsNotFinite) {
  for (const std::string strategy : {"sync", "local", "daso", "node"}) {
    Job job = job_of(strategy);
    job.gradient = [](const at::Tensor& value, int rank, std::int64_t step) {
      const at::Tensor gradient = pull(value, rank, step);
      return rank == 2 && step == 5 && value.numel() == 513 ? gradient / 0.0 : gradient;
    };
    const auto errors = errors_of(job, [](World&, Replica&, const When&) {});
    EXPECT_THAT(text_of(errors[2]), HasSubstr("'w2' on rank 2")) << strategy;
    EXPECT_EQ(exit_code_of(errors[2]), kExitBug);
    for (const std::exception_ptr& error : errors) {
      if (strategy == "node" && exit_code_of(error) == 0) continue;  // the other node may be done
      EXPECT_THAT(text_of(error), HasSubstr("not finite")) << strategy;
    }
  }
}

// Gradients are finite, what travels is not: above fp16's range.
TEST(Daso, NamesTheNodeWhoseChangeCannotTravel) {
  Job job = job_of("daso");
  job.options.exchange.wire = Wire::kFp16;
  job.gradient = [](const at::Tensor& value, int rank, std::int64_t) {
    return rank >= 2 && value.numel() == 40 ? at::full_like(value, 1e8) : at::zeros_like(value);
  };
  expect_all_name(errors_of(job, [](World&, Replica&, const When&) {}), {"'w3' on node b", "fp16"});
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
        const When when = job.course.at(0, batch);
        learner->begin_backward(when);
        module->weight.sum().backward();
        learner->before_step();
        optimizer.step(when.rate);
        module->mean.fill_(world.rank());
        module->count.fill_(world.rank());
        learner->after_step(when);
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
      EXPECT_EQ(replica.strategy->end_epoch(0, 1.0 + world.rank()),
                wanted[static_cast<std::size_t>(world.rank())]);
    });
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
    FlatModel model(std::make_shared<Weights>(kSizes));
    NamedAdamw optimizer(model, {});
    make_strategy(world, model, optimizer, job.options);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("warning: AdamW"));
}

}  // namespace
}  // namespace daso::test
