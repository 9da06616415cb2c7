// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/agreement.h"
#include "daso/exchange/equal_copies.h"
#include "daso/strategy/parts.h"

namespace daso {
namespace {

// Post-local SGD (Lin et al., arXiv 1808.07217): parameters become their mean every skip steps, at
// once, and everybody waits for it.
class Local final : public Strategy {
 public:
  explicit Local(const StrategySetup& setup)
      : gradients_(setup.world, setup.model, gradients_up_to(Reach::kWorld, setup.options)),
        means_(setup.world, setup.model, Reach::kWorld),
        copies_(setup.world, setup.model, setup.world.everyone()),
        pacing_(setup.world, setup.options.schedule, /*in_background=*/false),
        leaders_(setup.world, setup.options.exchange.kind, "exchange"),
        agreement_(setup.world, setup.model, setup.optimizer, leaders_) {}

  Reach reach(const StepInfo& info) const override { return pacing_.reach(info); }

  void begin_backward(const StepInfo& info) override { gradients_.begin(reach(info), info.step); }

  void before_step() override {
    gradients_.finish();
    agreement_.settle();
  }

  StrategyEvents after_step(const StepInfo& info) override {
    Plan plan = pacing_.after_step(info);
    const bool agrees = plan.then == Plan::Then::kAgree;
    begin(plan);
    if (reach(info) == Reach::kWorld) copies_.after_step(info);
    if (info.batch == info.last && !agrees) means_.average_buffers();
    return events_of(plan);
  }

  double mean_loss(int epoch, double loss) override { return means_.mean_loss(epoch, loss); }
  void end_epoch(int epoch, double mean_loss) override { pacing_.end_epoch(epoch, mean_loss); }

  void average_buffers() override { means_.average_buffers(); }
  void settle() override { agreement_.settle(); }

  State state() override {
    agreement_.settle();
    return pacing_.state();
  }
  void load_state(const State& state) override { pacing_.load_state(state); }

  bool view_ended() const override { return view_ended_; }
  StrategyEvents take_undone() override { return pacing_.take_undone(); }

  StrategyEvents enter_view(std::int64_t first_exchange) override {
    Plan plan = pacing_.enter_view(first_exchange);
    begin(plan);
    return events_of(plan);
  }

  Costs costs() const override { return gradients_.costs() + agreement_.costs(); }
  StrategyStatus status() const override { return pacing_.status(); }

 private:
  // Does what the plan says; where the view has ended it is put off, and the plan says no more.
  void begin(Plan& plan) {
    if (plan.then == Plan::Then::kNothing) return;
    const bool done = plan.then == Plan::Then::kAverage
                          ? agreement_.average_parameters(plan.exchange)
                          : agree_on_all(agreement_, means_, plan.exchange);
    if (done) return;
    pacing_.put_off(plan);
    plan.then = Plan::Then::kNothing;
    view_ended_ = true;
  }

  bool view_ended_ = false;
  GradientSync gradients_;
  EpochMeans means_;
  EqualCopies copies_;  // in blocking phases
  Pacing pacing_;
  const Leaders leaders_;
  Agreement agreement_;
};

}  // namespace

std::unique_ptr<Strategy> make_local(const StrategySetup& setup) {
  return std::make_unique<Local>(setup);
}

}  // namespace daso
