// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/large_tensor.h"

#include <ATen/ATen.h>

#include <bit>

#include "daso/base/error.h"
#include "daso/base/large_pages.h"

namespace daso {

at::Tensor large_zeros(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty(sizes, options);
  if (tensor.is_cpu()) advise_large_pages(bytes(tensor));
  return tensor.zero_();
}

std::span<float> floats(const at::Tensor& tensor) {
  DASO_ASSERT(tensor.is_cpu() && tensor.is_contiguous());
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<std::byte> bytes(const at::Tensor& tensor) {
  DASO_ASSERT(tensor.is_cpu() && tensor.is_contiguous());
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  // Without a way out of the loop, so that it becomes vector code.
  std::uint32_t bad = 0;
  for (const float value : values) {
    bad |=
        static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent);
  }
  return bad == 0;
}

}  // namespace daso
