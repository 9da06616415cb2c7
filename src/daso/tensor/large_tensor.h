// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/TensorOptions.h>

#include <cstddef>
#include <span>

#include "daso/kernels/kernels.h"

namespace daso {

// A tensor of zeros that lives for the whole run, in large pages where the system has them.
at::Tensor large_zeros(at::IntArrayRef sizes, const at::TensorOptions& options);

// The kernels of the device where the tensor lies. Throws ConfigError where there are none.
const Kernels& kernels_of(const at::Tensor& tensor);

// The memory of a contiguous float32 tensor, and of any contiguous tensor. It is that of its
// device, so only the kernels of that device may follow the pointer.
std::span<float> floats(const at::Tensor& tensor);
std::span<std::byte> bytes(const at::Tensor& tensor);

// The same for code that reads or writes by itself: the tensor lies on the CPU.
std::span<float> host_floats(const at::Tensor& tensor);
std::span<std::byte> host_bytes(const at::Tensor& tensor);

}  // namespace daso
