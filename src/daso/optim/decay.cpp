// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/decay.h"

#include <ATen/core/Tensor.h>

namespace daso {

std::vector<DecayRun> decay_runs(const FlatModel& model, bool all) {
  const auto whole = static_cast<std::size_t>(model.parameters().numel());
  if (all) return {{.offset = 0, .elements = whole, .decays = true}};
  std::vector<DecayRun> runs;
  const std::vector<FlatSpan>& spans = model.parameter_spans();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const bool decays = model.parameter(i).dim() > 1;
    const auto elements = static_cast<std::size_t>(spans[i].elements);
    if (runs.empty() || runs.back().decays != decays) {
      runs.push_back({static_cast<std::size_t>(spans[i].offset), 0, decays});
    }
    runs.back().elements += elements;
  }
  // The padding is zeros, which decay leaves alone.
  runs.back().elements = whole - runs.back().offset;
  return runs;
}

}  // namespace daso
