// SPDX-License-Identifier: Apache-2.0
#include "daso/global/averaging_strategy.h"

namespace daso {
namespace {

// Local sync alone: the bound that exchanges are measured against. Nodes drift apart.
class Node : public AveragingStrategy {
 public:
  explicit Node(const StrategyParts& parts) : AveragingStrategy(parts, Reach::kNode) {}

  Plan after_step(const When& when) override {
    if (when.batch == when.last) average_buffers();
    return {.phase = Phase::kCycling};
  }

 protected:
  Reach reach(const When&) const override { return Reach::kNode; }
};

}  // namespace

std::unique_ptr<Strategy> make_node(const StrategyParts& parts) {
  return std::make_unique<Node>(parts);
}

}  // namespace daso
