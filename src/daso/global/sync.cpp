// SPDX-License-Identifier: Apache-2.0
#include "daso/global/averaging_strategy.h"

namespace daso {
namespace {

// Gradients averaged over the world in every step: warm-up for the whole run.
class Sync : public AveragingStrategy {
 public:
  explicit Sync(const StrategyParts& parts) : AveragingStrategy(parts, Reach::kWorld) {}

  Plan after_step(const When& when) override {
    if (when.batch == when.last) average_buffers();
    return {.phase = Phase::kWarmup};
  }

 protected:
  Reach reach(const When&) const override { return Reach::kWorld; }
};

}  // namespace

std::unique_ptr<Strategy> make_sync(const StrategyParts& parts) {
  return std::make_unique<Sync>(parts);
}

}  // namespace daso
