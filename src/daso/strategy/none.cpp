// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/averaging_strategy.h"

namespace daso {
namespace {

// No communication: what a step costs without any of it, and the way to train on one rank.
class None : public Strategy {
 public:
  explicit None(const FlatModel& model) : model_(model) {}

  void begin_backward(const StepInfo&) override {}
  void before_step() override { model_.check(); }
  StrategyEvents after_step(const StepInfo&) override { return {}; }
  double end_epoch(int, double loss) override { return loss; }
  void average_buffers() override {}
  State state() override { return {}; }
  void load_state(const State&) override {}
  Costs costs() const override { return {}; }

 private:
  const FlatModel& model_;
};

}  // namespace

std::unique_ptr<Strategy> make_none(const StrategyParts& parts) {
  return std::make_unique<None>(parts.model);
}

}  // namespace daso
