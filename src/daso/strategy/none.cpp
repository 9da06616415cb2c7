// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/strategy.h"

namespace daso {
namespace {

// No communication: what a step costs without any of it, and the way to train on one rank.
class None final : public Strategy {
 public:
  explicit None(const StrategySetup& setup) : model_(setup.model) {}

  Reach reach(const StepInfo&) const override { return Reach::kRank; }
  void begin_backward(const StepInfo&) override {}
  void before_step() override { model_.check(); }
  StrategyEvents after_step(const StepInfo&) override { return {}; }
  double mean_loss(int, double loss) override { return loss; }
  void average_buffers() override {}
  Costs costs() const override { return {}; }

 private:
  const FlatModel& model_;
};

}  // namespace

std::unique_ptr<Strategy> make_none(const StrategySetup& setup) {
  return std::make_unique<None>(setup);
}

}  // namespace daso
