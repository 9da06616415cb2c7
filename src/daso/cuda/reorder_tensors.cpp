// SPDX-License-Identifier: Apache-2.0
// reorder.cu for tensors.
#include "daso/cuda/reorder_tensors.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "daso/base/error.h"
#include "daso/cuda/reorder.h"

namespace daso::cuda {
namespace {

Number number_of(at::ScalarType type) {
  DASO_ASSERT(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
  return type == at::kFloat      ? Number::kFloat
         : type == at::kBFloat16 ? Number::kBf16
                                 : Number::kFp16;
}

bool fits(const at::Tensor& to, const at::Tensor& from, bool to_last) {
  const at::Tensor& last = to_last ? to : from;
  const at::Tensor& plain = to_last ? from : to;
  return to.dim() == 4 && last.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         plain.is_contiguous() &&
         (to.scalar_type() == at::kFloat) != (from.scalar_type() == at::kFloat) &&
         to.size(1) * to.size(2) * to.size(3) <= kMostOfOutput;
}

}  // namespace

void copy_reordered(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                    bool to_last) {
  DASO_ASSERT(to.size() == from.size());
  std::vector<Reordered> weights;
  at::ScalarType from_type = at::kFloat;
  at::ScalarType to_type = at::kFloat;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool alike =
        weights.empty() || (from[i].scalar_type() == from_type && to[i].scalar_type() == to_type);
    if (!alike || !fits(to[i], from[i], to_last)) {
      to[i].copy_(from[i]);
      continue;
    }
    from_type = from[i].scalar_type();
    to_type = to[i].scalar_type();
    weights.push_back({.from = from[i].const_data_ptr(),
                       .to = to[i].mutable_data_ptr(),
                       .outputs = static_cast<std::uint32_t>(to[i].size(0)),
                       .channels = static_cast<std::uint32_t>(to[i].size(1)),
                       .pixels = static_cast<std::uint32_t>(to[i].size(2) * to[i].size(3))});
  }
  if (weights.empty()) return;
  reorder(weights.data(), static_cast<int>(weights.size()), number_of(from_type),
          number_of(to_type), to_last, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace daso::cuda
