// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "daso/comm/views.h"
#include "daso/exchange/agreement.h"
#include "daso/exchange/equal_copies.h"
#include "daso/exchange/exchange.h"
#include "daso/strategy/parts.h"

namespace daso {
namespace {

// Parameters are exchanged in the background and merged late (algorithm.md 3, lines 4 and 5).
class Daso final : public Strategy {
 public:
  explicit Daso(const StrategySetup& setup)
      : views_(setup.world.views()),
        gradients_(setup.world, setup.model, gradients_up_to(Reach::kWorld, setup.options)),
        means_(setup.world, setup.model, Reach::kWorld),
        copies_(setup.world, setup.model, setup.world.everyone()),
        pacing_(setup.world, setup.options.schedule, /*in_background=*/true),
        leaders_(setup.world, setup.options.exchange.kind, "exchange"),
        agreement_(setup.world, setup.model, setup.optimizer, leaders_) {
    if (setup.world.topology().nodes() == 1 && views_ == nullptr) return;
    const ExchangeOptions& options = setup.options.exchange;
    exchange_.emplace(setup.world, setup.model, leaders_, options, make_outer_rule(options.merge));
  }

  Reach reach(const StepInfo& info) const override { return pacing_.reach(info); }

  void begin_backward(const StepInfo& info) override {
    const Reach reach = pacing_.reach(info);
    // Before the first step of a cycling epoch all ranks are equal, and not in its middle.
    const bool begins = info.batch == 0 && !in_step_;
    if (exchange_ && begins && reach == Reach::kNode) exchange_->set_anchor();
    in_step_ = true;
    gradients_.begin(reach, info.step);
  }

  void before_step() override {
    gradients_.finish();
    agreement_.settle();
  }

  StrategyEvents after_step(const StepInfo& info) override {
    in_step_ = false;
    if (exchange_) exchange_->check();
    Plan plan = pacing_.after_step(info);
    if (plan.merge && !exchange_->merge(plan.merge->staleness)) {
      pacing_.abandon(*plan.merge);
      plan.merge.reset();
      view_ended_ = true;
    }
    const bool agrees = plan.then == Plan::Then::kAgree;
    begin(plan);
    if (pacing_.reach(info) == Reach::kWorld) copies_.after_step(info);
    if (info.batch == info.last && !agrees) means_.average_buffers();
    // The sooner the node goes on in the next view, the better; where something began, that has
    // told.
    if (views_ != nullptr && plan.merge && plan.then == Plan::Then::kNothing && !view_ended_) {
      view_ended_ = views_->ended();
    }
    return events_of(plan);
  }

  double mean_loss(int epoch, double loss) override { return means_.mean_loss(epoch, loss); }
  void end_epoch(int epoch, double mean_loss) override { pacing_.end_epoch(epoch, mean_loss); }

  void average_buffers() override { means_.average_buffers(); }
  void settle() override { agreement_.settle(); }

  State state() override {
    agreement_.settle();
    settle_exchange();
    State state = pacing_.state();
    if (exchange_) state.merge(exchange_->state());
    return state;
  }

  void load_state(const State& state) override {
    pacing_.load_state(state);
    if (exchange_) exchange_->load_state(state);
  }

  bool view_ended() const override { return view_ended_; }
  StrategyEvents take_undone() override { return pacing_.take_undone(); }

  StrategyEvents enter_view(std::int64_t first_exchange) override {
    if (exchange_) exchange_->clear_residuals();
    Plan plan = pacing_.enter_view(first_exchange);
    begin(plan);
    return events_of(plan);
  }

  // What is in flight here is part of the joiner's anchor.
  State state_for_joiner() override {
    settle_exchange();
    Pacing pacing = pacing_;
    if (exchange_ && exchange_->in_flight()) pacing.abandon();
    State state = pacing.state();
    if (exchange_) state.merge(exchange_->state_for_joiner());
    return state;
  }

  at::Tensor anchor() override { return exchange_ ? exchange_->anchor() : at::Tensor(); }

  void on_answer(OnAnswer tell) override {
    if (exchange_) exchange_->on_answer(std::move(tell));
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
  // Begins what the plan says; where the view has ended it is put off, and the plan says no more.
  void begin(Plan& plan) {
    if (plan.then == Plan::Then::kNothing) return;
    const bool begun =
        plan.then == Plan::Then::kStart
            ? exchange_->start(plan.exchange)
            : agree_on_all(agreement_, means_, plan.exchange, exchange_->residuals());
    if (begun) return;
    pacing_.put_off(plan);
    plan.then = Plan::Then::kNothing;
    view_ended_ = true;
  }

  void settle_exchange() {
    if (!exchange_ || !exchange_->in_flight() || exchange_->settle()) return;
    pacing_.abandon();
    view_ended_ = true;
  }

  Views* const views_;  // null in a world for good
  bool view_ended_ = false;
  bool in_step_ = false;
  GradientSync gradients_;
  EpochMeans means_;
  EqualCopies copies_;  // in blocking phases
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
