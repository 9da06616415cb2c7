// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "daso/exchange/agreement.h"
#include "daso/strategy/parts.h"
#include "replica.h"

// A strategy that the library does not know: one class, one row.
namespace daso::test {
namespace {

// Parameters become their mean over the nodes every `period` steps, counted over the whole run, at
// once. Nothing else brings nodes together, not even the end of an epoch.
class Periodic final : public Strategy {
 public:
  Periodic(const StrategySetup& setup, std::int64_t period)
      : period_(period),
        gradients_(setup.world, setup.model, gradients_up_to(Reach::kNode, setup.options)),
        means_(setup.world, setup.model, Reach::kWorld),
        leaders_(setup.world, ExchangeKind::kSharded, "periodic"),
        agreement_(setup.world, setup.model, setup.optimizer, leaders_) {}

  Reach reach(const StepInfo&) const override { return Reach::kNode; }
  void begin_backward(const StepInfo& info) override { gradients_.begin(Reach::kNode, info.step); }
  void before_step() override { gradients_.finish(); }
  StrategyEvents after_step(const StepInfo& info) override {
    if ((info.step + 1) % period_ != 0) return {};
    const std::int64_t number = info.step / period_;
    agreement_.average_parameters(number);
    return {{StrategyEvent::Kind::kAverage, number}};
  }
  double mean_loss(int epoch, double loss) override { return means_.mean_loss(epoch, loss); }
  void average_buffers() override { means_.average_buffers(); }
  Costs costs() const override { return gradients_.costs() + agreement_.costs(); }

 private:
  const std::int64_t period_;
  GradientSync gradients_;
  EpochMeans means_;
  const Leaders leaders_;
  Agreement agreement_;
};

StrategyEntry every(std::int64_t period) {
  return {.name = "periodic",
          .traits = {.equal_after_epoch = false},
          .make = [period](const StrategySetup& setup) {
            return std::make_unique<Periodic>(setup, period);
          }};
}

// Gradients that do not depend on parameters, without momentum: what ranks learn adds up, so that
// a mean is where one process with all gradients is.
Job job_of_additive_gradients() {
  Job job = job_of("not in the table", 2, 7);
  job.nodes = {"a", "a", "b", "c"};
  job.momentum = 0;
  job.gradient = [](const at::Tensor& value, int rank, std::int64_t step) {
    return at::cos(at::arange(value.numel(), at::kFloat) * (rank + 1) + step);
  };
  return job;
}

TEST(OwnStrategy, TrainsOnRanksAsItsRowSays) {
  Job job = job_of_additive_gradients();
  job.options.own = every(3);
  std::vector<at::Tensor> at_step(14);
  for (std::int64_t step = 0; step < 14; ++step) {
    Job shorter = job;
    shorter.options.own.reset();
    shorter.run_plan.epochs = 1;
    shorter.run_plan.batches = step + 1;
    at_step[static_cast<std::size_t>(step)] = alone(shorter, {0, 1, 2, 3});
  }
  job.after = [&](World&, FlatModel& model, Strategy&, Optimizer&, const StepInfo& info) {
    const bool together = (info.step + 1) % 3 == 0;
    EXPECT_EQ(
        at::allclose(model.parameters(), at_step[static_cast<std::size_t>(info.step)], 1e-5, 1e-5),
        together)
        << info.step;
  };
  results_of(job);
}

TEST(OwnStrategy, CountsWhatItSendsBetweenNodes) {
  Job job = job_of_additive_gradients();
  job.nodes = {"a", "b"};
  job.options.own = every(7);
  job.after = [](World&, FlatModel& model, Strategy& strategy, Optimizer&, const StepInfo& info) {
    // Half of the rows there, half of them back, each time in fp32.
    const std::int64_t bytes = (info.step + 1) / 7 * model.parameters().numel() * 4;
    EXPECT_EQ(strategy.costs().bytes_between_nodes, bytes);
  };
  results_of(job);
}

TEST(OwnStrategy, IsKnownByItsTraits) {
  StrategyOptions options{.name = "daso"};
  EXPECT_TRUE(traits_of(options).merges_late);
  options.own = every(3);
  EXPECT_FALSE(traits_of(options).merges_late);
  EXPECT_FALSE(traits_of(options).equal_after_epoch);
}

}  // namespace
}  // namespace daso::test
