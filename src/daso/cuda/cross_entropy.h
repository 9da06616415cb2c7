// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The mean cross entropy of scores in half precision, in two passes over them: one that reads, one
// that reads and writes the gradient. LibTorch makes fp32 copies of the scores, their logarithms
// and their gradients, and passes over 50 000 classes six times as much memory. Arithmetic is fp32.
namespace daso::cuda {

// Scores [rows, classes], row by row without gaps, and the right class of each row.
struct ScoreRows {
  const void* scores = nullptr;
  bool bf16 = true;  // else fp16
  const std::int64_t* labels = nullptr;
  std::int64_t rows = 0;
  std::int64_t classes = 0;
};

// Of each row: the logarithm of the sum of the scores' exponentials, and the loss, which is that
// less the label's score. NaN for a label that is no class.
void row_losses(const ScoreRows& rows, float* log_sums, float* losses, cudaStream_t stream);

// Gradients in the type of the scores: (softmax - 1 at the label) * factor, which lies on the
// device.
void row_gradients(const ScoreRows& rows, const float* log_sums, const float* factor,
                   void* gradients, cudaStream_t stream);

}  // namespace daso::cuda
