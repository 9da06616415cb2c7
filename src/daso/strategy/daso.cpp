// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/exchange.h"
#include "daso/strategy/phased_strategy.h"

namespace daso {
namespace {

// Parameters are exchanged in the background and merged late (algorithm.md 3, steps 4 and 5).
class Daso : public PhasedStrategy {
 public:
  explicit Daso(const StrategyParts& parts) : PhasedStrategy(parts, /*in_background=*/true) {
    if (several_nodes()) {
      exchange_.emplace(parts.world, parts.model, leaders(), parts.options.exchange);
    }
  }

  void begin_backward(const StepInfo& info) override {
    // Before the first step of cycling all ranks are equal.
    if (exchange_ && info.batch == 0 && reach(info) == Reach::kNode) exchange_->set_anchor();
    PhasedStrategy::begin_backward(info);
  }

  StrategyEvents after_step(const StepInfo& info) override {
    if (exchange_) exchange_->check();
    return PhasedStrategy::after_step(info);
  }

  State state() override {
    State state = PhasedStrategy::state();
    if (exchange_) state.merge(exchange_->state(in_flight()));
    return state;
  }

  void load_state(const State& state) override {
    PhasedStrategy::load_state(state);
    // None where another number of ranks goes on from an epoch's end: the anchor is set anew then.
    if (exchange_ && state.contains("exchange.anchor")) {
      exchange_->load_state(state, in_flight());
    }
  }

  Costs costs() const override {
    Costs costs = PhasedStrategy::costs();
    if (!exchange_) return costs;
    costs.wait_seconds += exchange_->wait_seconds();
    costs.communication_seconds += exchange_->busy_seconds();
    costs.bytes_between_nodes += exchange_->bytes_between_nodes();
    return costs;
  }

  StrategyStatus status() const override {
    StrategyStatus status = PhasedStrategy::status();
    if (exchange_) status.distance = exchange_->distance();
    return status;
  }

 protected:
  void obey(const Plan& plan) override {
    if (plan.merge) exchange_->merge(plan.merge->staleness);
    if (plan.then == Plan::Then::kStart) exchange_->start(plan.exchange);
    if (plan.then == Plan::Then::kAgree) agreement().agree(plan.exchange, exchange_->residuals());
  }

 private:
  std::optional<Exchange> exchange_;  // none on one node
};

}  // namespace

std::unique_ptr<Strategy> make_daso(const StrategyParts& parts) {
  return std::make_unique<Daso>(parts);
}

}  // namespace daso
