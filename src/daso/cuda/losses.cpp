// SPDX-License-Identifier: Apache-2.0
// cross_entropy.cu for tensors.
#include "daso/cuda/losses.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "daso/base/error.h"
#include "daso/cuda/cross_entropy.h"

namespace daso::cuda {
namespace {

ScoreRows rows_of(const at::Tensor& scores, const at::Tensor& labels) {
  DASO_ASSERT(scores.dim() == 2 && scores.is_contiguous() && labels.is_contiguous());
  DASO_ASSERT(scores.scalar_type() == at::kBFloat16 || scores.scalar_type() == at::kHalf);
  DASO_ASSERT(labels.scalar_type() == at::kLong && labels.numel() == scores.size(0));
  return {.scores = scores.const_data_ptr(),
          .bf16 = scores.scalar_type() == at::kBFloat16,
          .labels = labels.const_data_ptr<std::int64_t>(),
          .rows = scores.size(0),
          .classes = scores.size(1)};
}

}  // namespace

RowLosses row_losses_of(const at::Tensor& scores, const at::Tensor& labels) {
  const at::TensorOptions options = scores.options().dtype(at::kFloat);
  RowLosses result{at::empty({scores.size(0)}, options), at::empty({scores.size(0)}, options)};
  row_losses(rows_of(scores, labels), result.log_sums.mutable_data_ptr<float>(),
             result.losses.mutable_data_ptr<float>(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

at::Tensor row_gradients_of(const at::Tensor& scores, const at::Tensor& labels,
                            const at::Tensor& log_sums, const at::Tensor& factor) {
  DASO_ASSERT(factor.numel() == 1 && factor.scalar_type() == at::kFloat);
  at::Tensor gradients = at::empty_like(scores);
  row_gradients(rows_of(scores, labels), log_sums.const_data_ptr<float>(),
                factor.const_data_ptr<float>(), gradients.mutable_data_ptr(),
                c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return gradients;
}

}  // namespace daso::cuda
