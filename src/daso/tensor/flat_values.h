// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>

#include "daso/kernels/wire.h"

// What kernels find out about tensors of any device. Functions called ..._into leave the answer in
// a tensor on the same device, and on a GPU they return at once: whoever reads it later, with
// others, need not wait now. The rest waits for its answer.
//
// Values are contiguous float32 tensors, encoded ones contiguous tensors of bytes (wire.h). A flag
// is one int32; it is set to 1 where a value cannot travel or is not finite, and else left as it
// is, so one flag may serve several calls.
namespace daso {

// A flag that is not set, on the device of the tensor.
at::Tensor clear_flag(const at::Tensor& like);

// The difference values - anchor of whole blocks; merge.h says more.
void encode_into(Wire wire, const at::Tensor& values, const at::Tensor& anchor,
                 const at::Tensor& encoded, const Draws& draws, const at::Tensor& overflow);

// The flag is set where a value is not finite.
void check_finite_into(const at::Tensor& values, const at::Tensor& overflow);
bool all_finite(const at::Tensor& values);

// As digest_of() of digest.h, into one int64.
void digest_into(const at::Tensor& values, const at::Tensor& into);
std::int64_t digest(const at::Tensor& values);

// The root of the mean square of what two encoded segments differ by, as distance() of merge.h,
// into one float64.
void distance_into(Wire wire, const at::Tensor& own, const at::Tensor& back,
                   const at::Tensor& into);

}  // namespace daso
