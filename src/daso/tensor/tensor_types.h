// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <span>
#include <string>

namespace daso {

// A type that files of tensors can hold, and what they call it.
struct TensorType {
  at::ScalarType type;
  const char* safetensors;  // "F32"
  const char* pytorch;      // the class of its storage: "FloatStorage"
};

std::span<const TensorType> tensor_types();

// Throws ConfigError naming the tensor if no file can hold it: undefined, sparse, another type.
const TensorType& type_of(const std::string& name, const at::Tensor& tensor);

// The values in one piece in the memory of the CPU; the tensor itself where it is like that
// already.
at::Tensor in_one_piece(const at::Tensor& tensor);

}  // namespace daso
