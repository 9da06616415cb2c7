// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/equal_copies.h"
#include "daso/strategy/parts.h"

namespace daso {
namespace {

// Gradients averaged in every step, and nothing else. Over the world (`sync`) that is one large
// batch; within the node (`node`) it is local sync alone, the bound that exchanges are measured
// against, and nodes drift apart.
class Synchronous final : public Strategy {
 public:
  Synchronous(const StrategySetup& setup, Reach reach)
      : reach_(reach),
        gradients_(setup.world, setup.model, gradients_up_to(reach, setup.options)),
        means_(setup.world, setup.model, reach),
        copies_(setup.world, setup.model, ranks_within(setup.world, reach)) {}

  Reach reach(const StepInfo&) const override { return reach_; }
  void begin_backward(const StepInfo& info) override { gradients_.begin(reach_, info.step); }
  void before_step() override { gradients_.finish(); }
  StrategyEvents after_step(const StepInfo& info) override {
    copies_.after_step(info);
    if (info.batch == info.last) means_.average_buffers();
    return {};
  }
  double mean_loss(int epoch, double loss) override { return means_.mean_loss(epoch, loss); }
  void average_buffers() override { means_.average_buffers(); }
  Costs costs() const override { return gradients_.costs(); }

 private:
  const Reach reach_;
  GradientSync gradients_;
  EpochMeans means_;
  EqualCopies copies_;
};

}  // namespace

std::unique_ptr<Strategy> make_node(const StrategySetup& setup) {
  return std::make_unique<Synchronous>(setup, Reach::kNode);
}

std::unique_ptr<Strategy> make_sync(const StrategySetup& setup) {
  return std::make_unique<Synchronous>(setup, Reach::kWorld);
}

}  // namespace daso
