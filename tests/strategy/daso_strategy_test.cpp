// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "replica.h"

// What becomes of progress in exchanges, whatever rule, kind and wire they have.
namespace daso::test {
namespace {

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
      const FlatModel start(Weights(job.sizes).module);
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
  job.after = [&](World& world, FlatModel& model, Strategy&, Optimizer&, const StepInfo& info) {
    if (info.batch == info.last - 1) {
      before_the_end[static_cast<std::size_t>(world.rank())] = model.parameters().clone();
    }
  };
  results_of(job);
  at::Tensor mean = at::zeros_like(before_the_end[0], at::kDouble);
  for (const at::Tensor& one : before_the_end) mean += one / 6.0;
  Job shorter = job;
  shorter.run_plan.batches = 22;
  shorter.after = {};
  EXPECT_TRUE(at::allclose(mean, alone(shorter, {0, 1, 2, 3, 4, 5}).to(at::kDouble), 0, 2e-6));
  EXPECT_FALSE(at::allclose(before_the_end[0], before_the_end[5], 0, 1e-3));
}

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
                  const StepInfo& info) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const at::Tensor anchor = strategy.state().at("exchange.anchor").view({-1});
    if (rank == 0 && info.step < kSteps) {
      largest = std::max(largest, (model.parameters() - anchor).abs().max().item<double>());
    }
    if (info.step == kSteps) {  // the last change was sent with it, and is not merged yet
      parameters[rank] = model.parameters().clone();
    }
    if (info.step == kSteps + 1) anchors[rank] = anchor.clone();
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
    job.run_plan.rate = [](std::int64_t) { return 1e-3; };
    job.gradient = [](const at::Tensor& value, int, std::int64_t) { return at::ones_like(value); };
    const at::Tensor start = at::sin(at::arange(3, at::kFloat));
    for (const at::Tensor& result : results_of(job)) {
      const at::Tensor moved = start - result.narrow(0, 0, 3);
      EXPECT_LT((moved - 0.101).abs().max().item<double>(), 1e-4) << name_of(wire);
    }
  }
}

}  // namespace
}  // namespace daso::test
