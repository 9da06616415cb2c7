// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/averaging_strategy.h"

namespace daso {
namespace {

// Local sync alone: the bound that exchanges are measured against. Nodes drift apart.
class Node : public AveragingStrategy {
 public:
  explicit Node(const StrategyParts& parts) : AveragingStrategy(parts, Reach::kNode) {}

  StrategyEvents after_step(const StepInfo& info) override {
    if (info.batch == info.last) average_buffers();
    return {};
  }

 protected:
  Reach reach(const StepInfo&) const override { return Reach::kNode; }
};

}  // namespace

std::unique_ptr<Strategy> make_node(const StrategyParts& parts) {
  return std::make_unique<Node>(parts);
}

}  // namespace daso
