// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/flat_values.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

// Where one result of a kernel goes.
template <typename To>
To* result_in(const at::Tensor& into, const at::Tensor& values) {
  DASO_ASSERT(into.numel() == 1 && into.device() == values.device());
  DASO_ASSERT(into.element_size() == sizeof(To));
  return static_cast<To*>(into.mutable_data_ptr());
}

std::uint32_t* flag_in(const at::Tensor& overflow, const at::Tensor& values) {
  DASO_ASSERT(overflow.scalar_type() == at::kInt);
  return result_in<std::uint32_t>(overflow, values);
}

}  // namespace

at::Tensor clear_flag(const at::Tensor& like) {
  return at::zeros({1}, like.options().dtype(at::kInt));
}

void encode_into(Wire wire, const at::Tensor& values, const at::Tensor& anchor,
                 const at::Tensor& encoded, const Draws& draws, const at::Tensor& overflow) {
  const std::size_t elements = floats(values).size();
  DASO_ASSERT(floats(anchor).size() == elements && anchor.device() == values.device());
  DASO_ASSERT(bytes(encoded).size() == encoded_bytes(wire, elements) &&
              encoded.device() == values.device());
  kernels_of(values).of(wire).encode({.values = floats(values).data(),
                                      .anchor = floats(anchor).data(),
                                      .encoded = bytes(encoded).data(),
                                      .blocks = elements / kBlockElements,
                                      .draws = draws,
                                      .overflow = flag_in(overflow, values)});
}

void check_finite_into(const at::Tensor& values, const at::Tensor& overflow) {
  kernels_of(values).finite_check(
      {floats(values).data(), floats(values).size(), flag_in(overflow, values)});
}

bool all_finite(const at::Tensor& values) {
  const at::Tensor overflow = clear_flag(values);
  check_finite_into(values, overflow);
  return overflow.item<int>() == 0;
}

void digest_into(const at::Tensor& values, const at::Tensor& into) {
  DASO_ASSERT(into.scalar_type() == at::kLong);
  kernels_of(values).digest(
      {floats(values).data(), floats(values).size(), result_in<std::uint64_t>(into, values)});
}

std::int64_t digest(const at::Tensor& values) {
  const at::Tensor result = at::empty({1}, values.options().dtype(at::kLong));
  digest_into(values, result);
  return result.item<std::int64_t>();
}

void distance_into(Wire wire, const at::Tensor& own, const at::Tensor& back,
                   const at::Tensor& into) {
  DASO_ASSERT(into.scalar_type() == at::kDouble && back.device() == own.device());
  const std::size_t size = bytes(own).size();
  const std::size_t blocks = size / encoded_bytes(wire, kBlockElements);
  DASO_ASSERT(bytes(back).size() == size);
  DASO_ASSERT(size == encoded_bytes(wire, blocks * kBlockElements));
  if (blocks == 0) {
    into.zero_();
    return;
  }
  kernels_of(own).of(wire).squared_distance(
      {bytes(own).data(), bytes(back).data(), blocks, result_in<double>(into, own)});
  into.div_(static_cast<double>(blocks * kBlockElements)).sqrt_();
}

}  // namespace daso
