// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/TensorOptions.h>

#include <span>

namespace daso {

// A tensor of zeros that lives for the whole run, in large pages where the system has them.
at::Tensor large_zeros(at::IntArrayRef sizes, const at::TensorOptions& options);

// The memory of a contiguous float32 tensor on the CPU.
std::span<float> floats(const at::Tensor& tensor);
// The memory of a contiguous tensor on the CPU.
std::span<std::byte> bytes(const at::Tensor& tensor);

bool all_finite(std::span<const float> values);

}  // namespace daso
