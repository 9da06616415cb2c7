// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daso/tensor/flat_model.h"

namespace daso {

// A run of neighbouring tensors whose gradients travel together: spans first ... first + spans - 1
// of the layout, elements begin ... end - 1 of the flat tensor.
struct Bucket {
  std::size_t first = 0;
  std::size_t spans = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Cuts a layout into buckets of whole tensors, each as full as the cap allows; a tensor above the
// cap is a bucket of its own. The cut depends on nothing but the layout and the cap, so it is the
// same on all ranks and in every step.
std::vector<Bucket> cut_buckets(const std::vector<FlatSpan>& spans, std::int64_t cap_elements);

}  // namespace daso
