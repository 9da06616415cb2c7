// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/decay.h"

#include <ATen/core/Tensor.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/tensor/names.h"

namespace daso {

void check_weight_decay(double weight_decay) {
  require(std::isfinite(weight_decay) && weight_decay >= 0,
          "the weight decay must be 0 or more, got {}", weight_decay);
}

bool decays(const FlatModel& model, std::size_t span, const DecayOptions& options) {
  if (has_prefix(model.parameter_spans()[span].name, options.except)) return false;
  return options.all || model.parameter(span).dim() > 1;
}

std::vector<DecayRun> decay_runs(const FlatModel& model, const DecayOptions& options) {
  check_prefixes(model.module(), options.except);
  const auto whole = static_cast<std::size_t>(model.parameters().numel());
  if (options.all && options.except.empty()) {
    return {{.offset = 0, .elements = whole, .decays = true}};
  }
  std::vector<DecayRun> runs;
  const std::vector<FlatSpan>& spans = model.parameter_spans();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const bool here = decays(model, i, options);
    const auto elements = static_cast<std::size_t>(spans[i].elements);
    if (runs.empty() || runs.back().decays != here) {
      runs.push_back({static_cast<std::size_t>(spans[i].offset), 0, here});
    }
    runs.back().elements += elements;
  }
  // The padding is zeros, which decay leaves alone.
  runs.back().elements = whole - runs.back().offset;
  return runs;
}

}  // namespace daso
