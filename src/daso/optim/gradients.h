// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daso/tensor/flat_model.h"
#include "daso/tensor/state.h"

// What happens to the gradients between backward and the optimizer's step: a loss that was scaled
// for fp16 is scaled back, and gradients that are too long are shortened.
namespace daso {

// Keeps small gradients from becoming 0 in fp16 (Micikevicius et al., Mixed Precision Training,
// 2018, section 3.2): the loss is multiplied by a scale before backward, the gradients divided by
// it before the optimizer's step. Where a gradient leaves fp16's range the step is skipped and the
// scale halved; after kGrowthInterval steps without that it is doubled. The numbers are those of
// PyTorch's GradScaler. Always a power of two, so that scaling itself rounds nothing.
class LossScaler {
 public:
  static constexpr double kFirst = 65536;
  static constexpr std::int64_t kGrowthInterval = 2000;
  static constexpr double kLeast = 0x1p-10;

  double scale() const { return scale_; }
  std::int64_t good_steps() const { return good_steps_; }  // since the scale last changed

  // Divides the gradients by the scale. False: one is not finite, and the step is to be skipped.
  // The decision follows from the gradients alone, so ranks that hold the same mean decide alike.
  // Throws Error where the scale has become so small that it cannot be the reason.
  bool unscale(FlatModel& model);

  // Ranks go on alike, with the smallest scale and the smallest number of good steps of theirs.
  void agree_on(double scale, std::int64_t good_steps);

  State state() const;
  void load_state(const State& state);

 private:
  double scale_ = kFirst;
  std::int64_t good_steps_ = 0;
};

// Scales the gradients so that their norm is `largest` at most, by
// min(1, largest / (norm + 1e-6)) as PyTorch does, and returns the norm that they had: one float64
// on their device, so that nobody waits for it who does not read it. Where the norm is not finite
// the gradients stay as they are: scaling would hide where that comes from. Throws ConfigError
// unless `largest` is above 0.
at::Tensor clip_by_norm(FlatModel& model, double largest);

}  // namespace daso
