// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/layerwise.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>

#include "daso/optim/decay.h"
#include "daso/tensor/names.h"

namespace daso {

std::vector<LayerRun> layer_runs(const FlatModel& model, const std::vector<std::string>& no_decay) {
  check_prefixes(model.module(), no_decay);
  const DecayOptions decay{.all = false, .except = no_decay};
  std::vector<LayerRun> runs;
  const std::vector<FlatSpan>& spans = model.parameter_spans();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    runs.push_back({.offset = static_cast<std::size_t>(spans[i].offset),
                    .elements = static_cast<std::size_t>(spans[i].elements),
                    .adapts = model.parameter(i).dim() > 1,
                    .decays = decays(model, i, decay)});
  }
  return runs;
}

float rate_by_norms(double rate, double numerator, double denominator) {
  // An infinite rate would turn elements without a gradient into NaN.
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double ratio = numerator > 0 && denominator > 0 ? numerator / denominator : 1;
  return static_cast<float>(std::min(rate * ratio, kLargest));
}

}  // namespace daso
