// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "daso/exchange/agreement.h"
#include "daso/exchange/exchange.h"
#include "daso/strategy/parts.h"

namespace daso {
namespace {

// Parameters are exchanged in the background and merged late (algorithm.md 3, lines 4 and 5).
class Daso final : public Strategy {
 public:
  explicit Daso(const StrategySetup& setup)
      : gradients_(setup.world, setup.model, gradients_up_to(Reach::kWorld, setup.options)),
        means_(setup.world, setup.model, Reach::kWorld),
        pacing_(setup.world, setup.options.schedule, /*in_background=*/true),
        leaders_(setup.world, setup.options.exchange.kind, "exchange"),
        agreement_(setup.world, setup.model, setup.optimizer, leaders_) {
    if (setup.world.topology().nodes() == 1) return;
    const ExchangeOptions& options = setup.options.exchange;
    exchange_.emplace(setup.world, setup.model, leaders_, options, make_outer_rule(options.merge));
  }

  void begin_backward(const StepInfo& info) override {
    const Reach reach = pacing_.reach(info);
    // Before the first step of a cycling epoch all ranks are equal.
    if (exchange_ && info.batch == 0 && reach == Reach::kNode) exchange_->set_anchor();
    gradients_.begin(reach, info.step);
  }

  void before_step() override {
    gradients_.finish();
    agreement_.settle();
  }

  StrategyEvents after_step(const StepInfo& info) override {
    if (exchange_) exchange_->check();
    const Plan plan = pacing_.after_step(info);
    if (plan.merge) exchange_->merge(plan.merge->staleness);
    if (plan.then == Plan::Then::kStart) exchange_->start(plan.exchange);
    if (plan.then == Plan::Then::kAgree) agreement_.agree(plan.exchange, exchange_->residuals());
    if (info.batch == info.last) means_.average_buffers();
    return events_of(plan);
  }

  double end_epoch(int epoch, double loss) override {
    const double mean = means_.mean_loss(epoch, loss);
    pacing_.end_epoch(epoch, mean);
    return mean;
  }

  void average_buffers() override { means_.average_buffers(); }
  void settle() override { agreement_.settle(); }

  State state() override {
    agreement_.settle();
    State state = pacing_.state();
    if (exchange_) state.merge(exchange_->state());
    return state;
  }

  void load_state(const State& state) override {
    pacing_.load_state(state);
    if (exchange_) exchange_->load_state(state);
  }

  Costs costs() const override {
    const Costs blocking = gradients_.costs() + agreement_.costs();
    return exchange_ ? blocking + exchange_->costs() : blocking;
  }

  StrategyStatus status() const override {
    StrategyStatus status = pacing_.status();
    // In blocking phases nodes are equal.
    const bool apart = exchange_ && status.phase == Phase::kCycling;
    if (apart) status.distance = exchange_->distance();
    return status;
  }

 private:
  GradientSync gradients_;
  EpochMeans means_;
  Pacing pacing_;
  const Leaders leaders_;
  Agreement agreement_;
  std::optional<Exchange> exchange_;  // none on one node
};

}  // namespace

std::unique_ptr<Strategy> make_daso(const StrategySetup& setup) {
  return std::make_unique<Daso>(setup);
}

}  // namespace daso
