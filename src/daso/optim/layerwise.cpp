// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/layerwise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>

#include "daso/kernels/norm.h"
#include "daso/kernels/update.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

// So many changes stay in the processor's cache until their squares are added.
constexpr std::size_t kPiece = 1024;
static_assert(kPiece % SquareSums::kSums == 0);

// The first pass of LAMB over a tensor, with the norms of its parameters and of its change.
Norms take_in(const AdamStep& step, std::span<const float> gradients,
              std::span<const float> parameters, std::span<float> first, std::span<float> second,
              const Kernels& kernels) {
  std::array<float, kPiece> buffer;
  SquareSums sums;
  for (std::size_t from = 0; from < parameters.size(); from += kPiece) {
    const std::size_t elements = std::min(kPiece, parameters.size() - from);
    const std::span<float> change = std::span(buffer).first(elements);
    lamb_moments(step, gradients.subspan(from, elements), parameters.subspan(from, elements),
                 first.subspan(from, elements), second.subspan(from, elements), change, kernels);
    sums.add(parameters.subspan(from, elements), change, kernels);
  }
  return sums.norms();
}

}  // namespace

float rate_by_norms(double rate, double numerator, double denominator) {
  // An infinite rate would turn elements without a gradient into NaN.
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double ratio = numerator > 0 && denominator > 0 ? numerator / denominator : 1;
  return static_cast<float>(std::min(rate * ratio, kLargest));
}

Lars::Lars(FlatModel& model, const OptimizerOptions& options)
    : MomentOptimizer(model, "lars"),
      options_(options),
      runs_(layer_runs(model, options)),
      velocity_(add_moment("velocity")) {
  validate(options);
}

void Lars::step(double learning_rate) {
  const Kernels& kernels = kernels_of(model_.parameters());
  const std::span<const float> gradients = floats(model_.gradients());
  const std::span<float> parameters = floats(model_.parameters());
  const std::span<float> velocity = floats(velocity_);
  for (const ElementRun& run : runs_) {
    const std::span<const float> g = run.of(gradients);
    const std::span<float> w = run.of(parameters);
    const double decay = run.decays ? options_.weight_decay : 0;
    LarsStep step{.rate = static_cast<float>(learning_rate),
                  .momentum = static_cast<float>(options_.momentum),
                  .weight_decay = static_cast<float>(decay)};
    if (run.adapts) {
      const auto [size, slope] = norms_of(w, g, kernels);
      // Without a gradient the rate stays as it is, although decay alone would give a ratio.
      step.rate =
          rate_by_norms(learning_rate, slope > 0 ? options_.trust * size : 0, slope + decay * size);
    }
    lars_update(step, g, w, run.of(velocity), kernels);
  }
  ++steps_;
}

Lamb::Lamb(FlatModel& model, const OptimizerOptions& options)
    : MomentOptimizer(model, "lamb"),
      options_(options),
      runs_(layer_runs(model, options)),
      first_(add_moment("first")),
      second_(add_moment("second")) {
  validate(options);
}

void Lamb::step(double learning_rate) {
  AdamStep step{.beta1 = options_.beta1,
                .beta2 = options_.beta2,
                .epsilon = options_.epsilon,
                .number = steps_ + 1};
  const Kernels& kernels = kernels_of(model_.parameters());
  const std::span<const float> gradients = floats(model_.gradients());
  const std::span<float> parameters = floats(model_.parameters());
  for (const ElementRun& run : runs_) {
    const std::span<float> w = run.of(parameters);
    const std::span<float> first = run.of(floats(first_));
    const std::span<float> second = run.of(floats(second_));
    step.weight_decay = run.decays ? options_.weight_decay : 0;
    const auto [size, change] = take_in(step, run.of(gradients), w, first, second, kernels);
    step.learning_rate = run.adapts ? rate_by_norms(learning_rate, size, change) : learning_rate;
    lamb_update(step, first, second, w, kernels);
  }
  ++steps_;
}

}  // namespace daso
