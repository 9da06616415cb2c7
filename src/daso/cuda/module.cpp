// SPDX-License-Identifier: Apache-2.0
// What libdaso_cuda.so exports.
#include <cuda_runtime_api.h>

#include "daso/base/version.h"
#include "daso/cuda/graph.h"
#include "daso/cuda/kernels.h"
#include "daso/cuda/losses.h"
#include "daso/cuda/nccl_comm.h"
#include "daso/cuda/reorder_tensors.h"
#include "daso/tensor/device.h"

extern "C" const daso::DeviceModule* daso_device_module();

namespace daso::cuda {
namespace {

std::vector<std::pair<std::string, std::string>> facts() {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  return {{"CUDA runtime", cuda_version_text(runtime)}, {"NCCL", nccl_version()}};
}

}  // namespace
}  // namespace daso::cuda

extern "C" const daso::DeviceModule* daso_device_module() {
  static constexpr daso::DeviceModule kModule{.version = daso::kVersion,
                                              .built = DASO_CUDA_BUILT,
                                              .cuda = CUDART_VERSION,
                                              .architectures = DASO_CUDA_ARCHITECTURES,
                                              .facts = daso::cuda::facts,
                                              .kernels = daso::cuda::kernels,
                                              .make_graph = daso::cuda::make_graph,
                                              .copy_reordered = daso::cuda::copy_reordered,
                                              .row_losses = daso::cuda::row_losses_of,
                                              .row_gradients = daso::cuda::row_gradients_of};
  return &kModule;
}
