// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/decay.h"

#include <ATen/core/Tensor.h>

#include "daso/tensor/names.h"

namespace daso {
namespace {

// Weight decay is for tensors of more than one dimension, or for all, but for those that are named.
ElementRun run_of(const FlatModel& model, std::size_t span, bool decay_all,
                  const std::vector<std::string>& no_decay) {
  const FlatSpan& place = model.parameter_spans()[span];
  const bool matrix = model.parameter(span).dim() > 1;
  return {.offset = static_cast<std::size_t>(place.offset),
          .elements = static_cast<std::size_t>(place.elements),
          .decays = (decay_all || matrix) && !has_prefix(place.name, no_decay),
          .adapts = matrix};
}

}  // namespace

std::vector<ElementRun> decay_runs(const FlatModel& model, const OptimizerOptions& options) {
  const auto whole = static_cast<std::size_t>(model.parameters().numel());
  if (options.weight_decay == 0) return {{.offset = 0, .elements = whole}};
  check_prefixes(model.module(), options.no_decay);
  if (options.decay_all && options.no_decay.empty()) return {{.offset = 0, .elements = whole}};
  std::vector<ElementRun> runs;
  for (std::size_t i = 0; i < model.parameter_spans().size(); ++i) {
    const ElementRun next = run_of(model, i, options.decay_all, options.no_decay);
    if (runs.empty() || runs.back().decays != next.decays) {
      runs.push_back({.offset = next.offset, .elements = 0, .decays = next.decays});
    }
    runs.back().elements += next.elements;
  }
  // The padding is zeros, which decay leaves alone.
  runs.back().elements = whole - runs.back().offset;
  return runs;
}

std::vector<ElementRun> layer_runs(const FlatModel& model, const OptimizerOptions& options) {
  check_prefixes(model.module(), options.no_decay);
  std::vector<ElementRun> runs;
  for (std::size_t i = 0; i < model.parameter_spans().size(); ++i) {
    runs.push_back(run_of(model, i, /*decay_all=*/false, options.no_decay));
  }
  return runs;
}

}  // namespace daso
