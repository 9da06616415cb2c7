// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/lamb.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "daso/kernels/lamb_kernel.h"
#include "daso/kernels/norm.h"
#include "daso/optim/adamw.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

// So many changes stay in the processor's cache until their squares are added.
constexpr std::size_t kPiece = 1024;
static_assert(kPiece % SquareSums::kSums == 0);

LambOptions checked(const LambOptions& options) {
  validate(AdamwOptions{.beta1 = options.beta1,
                        .beta2 = options.beta2,
                        .epsilon = options.epsilon,
                        .weight_decay = options.weight_decay});
  return options;
}

// The first pass over a tensor, with the norms of its parameters and of its change.
Norms take_in(const LambStep& step, std::span<const float> gradients,
              std::span<const float> parameters, std::span<float> first, std::span<float> second) {
  std::array<float, kPiece> buffer;
  SquareSums sums;
  for (std::size_t from = 0; from < parameters.size(); from += kPiece) {
    const std::size_t elements = std::min(kPiece, parameters.size() - from);
    const std::span<float> change = std::span(buffer).first(elements);
    lamb_moments(step, gradients.subspan(from, elements), parameters.subspan(from, elements),
                 first.subspan(from, elements), second.subspan(from, elements), change);
    sums.add(parameters.subspan(from, elements), change);
  }
  return sums.norms();
}

}  // namespace

Lamb::Lamb(FlatModel& model, const LambOptions& options)
    : MomentOptimizer(model, "lamb"),
      options_(checked(options)),
      runs_(layer_runs(model, options.no_decay)),
      first_(add_moment("first")),
      second_(add_moment("second")) {}

void Lamb::step(double learning_rate) {
  LambStep step{.beta1 = options_.beta1,
                .beta2 = options_.beta2,
                .epsilon = options_.epsilon,
                .number = steps_ + 1};
  const std::span<const float> gradients = floats(model_.gradients());
  const std::span<float> parameters = floats(model_.parameters());
  for (const LayerRun& run : runs_) {
    const std::span<float> w = parameters.subspan(run.offset, run.elements);
    const std::span<float> first = floats(first_).subspan(run.offset, run.elements);
    const std::span<float> second = floats(second_).subspan(run.offset, run.elements);
    step.weight_decay = run.decays ? options_.weight_decay : 0;
    const auto [size, change] =
        take_in(step, gradients.subspan(run.offset, run.elements), w, first, second);
    const float rate =
        run.adapts ? rate_by_norms(learning_rate, size, change) : static_cast<float>(learning_rate);
    lamb_update(step, rate, first, second, w);
  }
  ++steps_;
}

}  // namespace daso
