// SPDX-License-Identifier: Apache-2.0
#include "daso/cuda/graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <exception>

#include "daso/base/error.h"

namespace daso::cuda {
namespace {

class Graph final : public StepGraph {
 public:
  void capture(const std::function<void()>& work) override {
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
    if (stream == c10::cuda::getDefaultCUDAStream(stream.device_index())) {
      throw Error("a graph cannot be recorded on the default stream");
    }
    // Eager steps have left the memory of their activations, which the graph needs once more.
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Other threads of this process go on using the GPU meanwhile: exchanges, loaders.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    try {
      graph_.capture_end();
    } catch (...) {
      // LibTorch has not come to this: what is allocated from now on is not the graph's.
      c10::cuda::CUDACachingAllocator::endAllocateToPool(stream.device_index(), graph_.pool());
      if (!failure) failure = std::current_exception();
    }
    if (!failure) return;
    cudaGetLastError();  // it has been told, and is not the next call's
    std::rethrow_exception(failure);
  }

  void replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<StepGraph> make_graph() { return std::make_unique<Graph>(); }

}  // namespace daso::cuda
