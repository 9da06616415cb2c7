// SPDX-License-Identifier: Apache-2.0
#include "daso/run/loss.h"

#include <ATen/ATen.h>

namespace daso {

at::Tensor training_loss(const at::Tensor& scores, const at::Tensor& labels, double smoothing) {
  constexpr std::int64_t kIgnoreNone = -100;  // no label is negative
  return at::cross_entropy_loss(scores.flatten(0, -2), labels.flatten(), /*weight=*/{},
                                at::Reduction::Mean, kIgnoreNone, smoothing);
}

}  // namespace daso
