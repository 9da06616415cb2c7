// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <optional>
#include <span>
#include <vector>

#include "daso/tensor/flat_model.h"

// Finding the tensor in which copies of a model differ that should be equal.
namespace daso {

// The digest of each tensor's part in `values`, which are the elements of the flat layout from
// `begin` on: [tensors], int64.
at::Tensor digests_by_tensor(const std::vector<FlatSpan>& spans, std::span<const float> values,
                             std::int64_t begin);

struct CopyDifference {
  std::int64_t copy = 0;  // differs from the first
  std::string tensor;
};

// `digests` is [copies, tensors].
std::optional<CopyDifference> first_difference(const std::vector<FlatSpan>& spans,
                                               const at::Tensor& digests);

}  // namespace daso
