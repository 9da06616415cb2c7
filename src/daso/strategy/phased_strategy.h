// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/exchange/agreement.h"
#include "daso/strategy/averaging_strategy.h"

namespace daso {

// A strategy with phases and a schedule: world-wide gradients in blocking phases, local sync and
// means of parameters in cycling. What a mean is, is up to the strategy.
class PhasedStrategy : public AveragingStrategy {
 public:
  PhasedStrategy(const StrategyParts& parts, bool in_background);

  void before_step() override;
  StrategyEvents after_step(const StepInfo& info) override;
  StrategyStatus status() const override { return status_; }
  void settle() override { agreement_.settle(); }
  double end_epoch(int epoch, double loss) override;
  State state() override;
  void load_state(const State& state) override;
  Costs costs() const override;

 protected:
  Reach reach(const StepInfo& info) const override;
  // Does what is due.
  virtual void obey(const Plan& plan) = 0;

  const Schedule& schedule() const { return schedule_; }
  bool in_flight() const { return cycle_.state().in_flight.has_value(); }
  bool several_nodes() const { return world().topology().nodes() > 1; }
  const Leaders& leaders() const { return leaders_; }
  Agreement& agreement() { return agreement_; }

 private:
  void follow(const Plan& plan, std::int64_t step);

  Schedule schedule_;
  Cycle cycle_;
  const Leaders leaders_;
  Agreement agreement_;
  StrategyStatus status_;
};

}  // namespace daso
