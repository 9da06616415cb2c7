// SPDX-License-Identifier: Apache-2.0
// What libdaso_cuda.so exports.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "daso/base/error.h"
#include "daso/base/version.h"
#include "daso/cuda/graph.h"
#include "daso/cuda/kernels.h"
#include "daso/cuda/losses.h"
#include "daso/cuda/reorder_tensors.h"
#include "daso/tensor/device.h"

extern "C" const daso::DeviceModule* daso_device_module();

namespace daso::cuda {
namespace {

// 22809 gives "2.28.9".
std::string nccl_version() {
  constexpr int kMajor = 10000;
  constexpr int kMinor = 100;
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return fmt::format("{}.{}.{}", version / kMajor, version % kMajor / kMinor, version % kMinor);
}

std::vector<std::pair<std::string, std::string>> facts() {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  return {{"CUDA runtime", cuda_version_text(runtime)}, {"NCCL", nccl_version()}};
}

std::vector<Gpu> gpus() {
  const GpuDriver& driver = gpu_driver();
  require(driver.problem.empty(), "{}", driver.problem);
  choose_gpu({}, 0, driver, *daso_device_module());  // says why none can be used
  std::vector<Gpu> usable;
  for (const Gpu& gpu : driver.gpus) {
    if (built_for(DASO_CUDA_ARCHITECTURES, gpu)) usable.push_back(gpu);
  }
  return usable;
}

}  // namespace
}  // namespace daso::cuda

extern "C" const daso::DeviceModule* daso_device_module() {
  static constexpr daso::DeviceModule kModule{.version = daso::kVersion,
                                              .built = DASO_CUDA_BUILT,
                                              .cuda = CUDART_VERSION,
                                              .architectures = DASO_CUDA_ARCHITECTURES,
                                              .facts = daso::cuda::facts,
                                              .gpus = daso::cuda::gpus,
                                              .kernels = daso::cuda::kernels,
                                              .make_graph = daso::cuda::make_graph,
                                              .copy_reordered = daso::cuda::copy_reordered,
                                              .row_losses = daso::cuda::row_losses_of,
                                              .row_gradients = daso::cuda::row_gradients_of};
  return &kModule;
}
