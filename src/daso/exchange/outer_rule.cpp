// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/outer_rule.h"

namespace daso {
namespace {

class Corrected final : public OuterRule {
 public:
  bool needs_sent() const override { return false; }
  void apply(const Answer& answer) const override { merge_corrected(answer.merge, answer.kernels); }
};

class Paper final : public OuterRule {
 public:
  bool needs_sent() const override { return true; }
  void apply(const Answer& answer) const override {
    merge_paper(answer.merge,
                {.sent = answer.sent,
                 .staleness = static_cast<int>(answer.staleness),
                 .peers = answer.nodes},
                answer.kernels);
  }
};

}  // namespace

std::unique_ptr<OuterRule> make_outer_rule(MergeRule rule) {
  if (rule == MergeRule::kCorrected) return std::make_unique<Corrected>();
  return std::make_unique<Paper>();
}

}  // namespace daso
