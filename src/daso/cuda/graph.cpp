// SPDX-License-Identifier: Apache-2.0
#include "daso/cuda/graph.h"

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <exception>

#include "daso/base/error.h"

namespace daso::cuda {
namespace {

// The graph's memory is no longer its own. LibTorch does this at the end of a capture, to which one
// that has failed does not come.
void give_back(c10::DeviceIndex device, at::cuda::MempoolId_t pool) {
  c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool);
  c10::cuda::CUDACachingAllocator::releasePool(device, pool);
  at::HostAllocator* pinned = at::getHostAllocator(at::kCUDA);
  pinned->end_allocate_to_pool(pool);
  pinned->release_pool(pool);
}

// LibTorch's generator takes itself for one that is being captured until a capture succeeds, and
// refuses to draw.
void capture_something() {
  const at::Tensor something = at::empty({1}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  at::cuda::CUDAGraph graph;
  graph.capture_begin(at::cuda::graph_pool_handle(), cudaStreamCaptureModeThreadLocal);
  something.zero_();
  graph.capture_end();
}

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
    const at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    bool ended = false;
    try {
      graph_.capture_end();
      ended = true;
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
    if (!failure) return;
    cudaGetLastError();  // it has been told, and is not the next call's
    if (!ended) mend(stream.device_index(), pool);
    std::rethrow_exception(failure);
  }

  void replay() override { graph_.replay(); }

 private:
  // As far as it goes: why the capture has failed is what has to be told.
  static void mend(c10::DeviceIndex device, at::cuda::MempoolId_t pool) {
    try {
      give_back(device, pool);
      capture_something();
    } catch (const std::exception&) {
      cudaGetLastError();
    }
  }

  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<StepGraph> make_graph() { return std::make_unique<Graph>(); }

}  // namespace daso::cuda
