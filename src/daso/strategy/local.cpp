// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/phased_strategy.h"

namespace daso {
namespace {

// Post-local SGD (Lin et al., arXiv 1808.07217): parameters become their mean every skip steps, at
// once, and everybody waits for it.
class Local : public PhasedStrategy {
 public:
  explicit Local(const StrategyParts& parts) : PhasedStrategy(parts, /*in_background=*/false) {}

 protected:
  void obey(const Plan& plan) override {
    if (plan.then == Plan::Then::kAverage) agreement().average_parameters(plan.exchange);
    if (plan.then == Plan::Then::kAgree) agreement().agree(plan.exchange);
  }
};

}  // namespace

std::unique_ptr<Strategy> make_local(const StrategyParts& parts) {
  return std::make_unique<Local>(parts);
}

}  // namespace daso
