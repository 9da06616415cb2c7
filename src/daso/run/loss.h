// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

namespace daso {

// What training makes smaller: the mean cross entropy of the scores, [..., classes], in nats. With
// label smoothing x the label's class counts 1 - x, and all K classes, its own included, x / K each
// (Szegedy et al., Rethinking the Inception Architecture, section 7; as PyTorch does).
at::Tensor training_loss(const at::Tensor& scores, const at::Tensor& labels, double smoothing);

}  // namespace daso
