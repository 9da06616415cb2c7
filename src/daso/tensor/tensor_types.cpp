// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/tensor_types.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr TensorType kTypes[] = {
    {at::kFloat, "F32", "FloatStorage"}, {at::kDouble, "F64", "DoubleStorage"},
    {at::kHalf, "F16", "HalfStorage"},   {at::kBFloat16, "BF16", "BFloat16Storage"},
    {at::kLong, "I64", "LongStorage"},   {at::kInt, "I32", "IntStorage"},
    {at::kShort, "I16", "ShortStorage"}, {at::kChar, "I8", "CharStorage"},
    {at::kByte, "U8", "ByteStorage"},    {at::kBool, "BOOL", "BoolStorage"},
};

}  // namespace

std::span<const TensorType> tensor_types() { return kTypes; }

const TensorType& type_of(const std::string& name, const at::Tensor& tensor) {
  require(tensor.defined(), "tensor '{}' is not defined; it cannot be written to a file", name);
  require(tensor.layout() == at::kStrided,
          "tensor '{}' is sparse; make it dense before it is written to a file", name);
  const auto* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const TensorType& one) { return one.type == tensor.scalar_type(); });
  require(type != std::end(kTypes),
          "tensor '{}' is of type {}, which files cannot hold; convert it first", name,
          c10::toString(tensor.scalar_type()));
  return *type;
}

at::Tensor in_one_piece(const at::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

}  // namespace daso
