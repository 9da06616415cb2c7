// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/averaging_strategy.h"

namespace daso {
namespace {

// Gradients averaged over the world in every step: warm-up for the whole run.
class Sync : public AveragingStrategy {
 public:
  explicit Sync(const StrategyParts& parts) : AveragingStrategy(parts, Reach::kWorld) {}

  StrategyEvents after_step(const StepInfo& info) override {
    if (info.batch == info.last) average_buffers();
    return {};
  }

 protected:
  Reach reach(const StepInfo&) const override { return Reach::kWorld; }
};

}  // namespace

std::unique_ptr<Strategy> make_sync(const StrategyParts& parts) {
  return std::make_unique<Sync>(parts);
}

}  // namespace daso
