// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/outer_rule.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/tensor/flat_model.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

constexpr std::int64_t kRowsAtOnce = 1024;  // followed, so that what is not kept stays small

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

void follow(const ExchangeOptions& options, const at::Tensor& anchor, const at::Tensor& answer) {
  DASO_ASSERT(anchor.size(0) == answer.size(0) && anchor.size(1) == kFlatBlock);
  const std::unique_ptr<OuterRule> rule = make_outer_rule(options.merge);
  const at::Tensor unused = at::zeros({std::min(anchor.size(0), kRowsAtOnce), kFlatBlock});
  for (std::int64_t row = 0; row < anchor.size(0); row += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, anchor.size(0) - row);
    const at::Tensor encoded = answer.narrow(0, row, rows);
    const at::Tensor parameters = unused.narrow(0, 0, rows);
    rule->apply({.merge = {.wire = options.wire,
                           .own = bytes(encoded),
                           .back = bytes(encoded),
                           .parameters = floats(parameters),
                           .anchor = floats(anchor.narrow(0, row, rows))},
                 .sent = floats(parameters),
                 .staleness = 1});
  }
}

}  // namespace daso
