// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <string>
#include <vector>

#include "daso/kernels/wire.h"

// Passes over a model on a GPU, timed by the GPU's own clock beside copies of its memory.
namespace daso::bench {

struct GpuPassOptions {
  std::int64_t elements = 0;  // whole blocks
  Wire wire = Wire::kInt8;
  bool paper = false;  // the rule of the merge
  int iterations = 30;
};

// One pass: what it must read and write at least, and how long it took.
struct GpuPass {
  std::string name;
  std::int64_t bytes = 0;
  double seconds = 0;       // best of the rounds
  double copy_seconds = 0;  // of a copy that reads and writes as many bytes in all
};

// Each round times every pass and its copy in turn; a time is that of several calls one behind the
// other, so that starting them counts little. The optimizers' runs are as those of a network: large
// tensors with small ones between them. Throws Error where the GPU does not answer in time.
std::vector<GpuPass> time_gpu_passes(const GpuPassOptions& options, const at::Device& device);

}  // namespace daso::bench
