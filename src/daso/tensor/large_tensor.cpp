// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/large_tensor.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/base/large_pages.h"
#include "daso/tensor/device.h"

namespace daso {

at::Tensor large_zeros(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty(sizes, options);
  if (tensor.is_cpu()) advise_large_pages(host_bytes(tensor));
  return tensor.zero_();
}

const Kernels& kernels_of(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return cpu_kernels();
  require(tensor.is_cuda(), "there are no kernels for tensors on {}; move the model to the CPU",
          tensor.device().str());
  return device_module().kernels();
}

std::span<float> floats(const at::Tensor& tensor) {
  DASO_ASSERT(tensor.is_contiguous());
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<std::byte> bytes(const at::Tensor& tensor) {
  DASO_ASSERT(tensor.is_contiguous());
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

std::span<float> host_floats(const at::Tensor& tensor) {
  DASO_ASSERT(tensor.is_cpu());
  return floats(tensor);
}

std::span<std::byte> host_bytes(const at::Tensor& tensor) {
  DASO_ASSERT(tensor.is_cpu());
  return bytes(tensor);
}

}  // namespace daso
