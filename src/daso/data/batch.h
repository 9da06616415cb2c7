// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

namespace daso {

struct Batch {
  // Images: float32 [batch, channels, height, width]. Texts: int64 [batch, length].
  at::Tensor inputs;
  // Images: int64 [batch], the classes. Texts: int64 [batch, length], the token that follows each.
  at::Tensor labels;
};

}  // namespace daso
