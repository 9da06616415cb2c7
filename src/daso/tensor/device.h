// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daso/base/gpus.h"
#include "daso/kernels/kernels.h"

// Where tensors lie and are computed with: the CPU, or a GPU of this machine. All that is CUDA lies
// in a module (src/daso/cuda, loaded from lib/daso/libdaso_cuda.so when a GPU is to be used); what
// this file declares is all that the library knows of it. Streams and events are LibTorch's own,
// which need no CUDA to be spoken of (c10/core/Stream.h, c10/core/Event.h).
namespace daso {

// Work of a GPU that is recorded once and then done again with one call.
class StepGraph {
 public:
  virtual ~StepGraph() = default;
  // Records what `work` gives to the calling thread's current stream, which must not be the default
  // one, and does none of it. Memory that LibTorch has kept for other work is given back before,
  // and what `work` takes belongs to the graph. Passes on what `work` throws, and throws where
  // something in it cannot be recorded, like reading a value.
  virtual void capture(const std::function<void()>& work) = 0;
  virtual void replay() = 0;  // on the current stream
};

// Of scores [rows, classes]: one number for each row.
struct RowLosses {
  at::Tensor losses;    // cross entropy
  at::Tensor log_sums;  // of the scores' exponentials
};

// What the CUDA module exports, with C linkage, as kDeviceModuleEntry.
struct DeviceModule {
  const char* version;  // kVersion that it was built with; must be ours
  const char* built;    // "CUDA 13.0, sm_80 sm_90 sm_100"
  int cuda;             // that it was built with, as 13000; the driver must know its major version
  const char* architectures;  // as CMake names them: "80-real 90-real 100"
  // Names and versions of what it brings, such as NCCL, for people to read. Needs no GPU.
  std::vector<std::pair<std::string, std::string>> (*facts)();
  // Kernels over the memory of the current device. They are launched on the calling thread's
  // current stream, as LibTorch's own operations are, and return at once.
  const Kernels& (*kernels)();
  std::unique_ptr<StepGraph> (*make_graph)();
  // Copies weights of convolutions, [outputs, channels, height, width], all at once: from the order
  // of a contiguous tensor in fp32 to channels_last in bf16 or fp16, or back.
  void (*copy_reordered)(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                         bool to_last);
  // Cross entropy of scores in bf16 or fp16, [rows, classes], without copies in fp32; and its
  // gradient, times a factor of one element.
  RowLosses (*row_losses)(const at::Tensor& scores, const at::Tensor& labels);
  at::Tensor (*row_gradients)(const at::Tensor& scores, const at::Tensor& labels,
                              const at::Tensor& log_sums, const at::Tensor& factor);
};
inline constexpr const char* kDeviceModuleEntry = "daso_device_module";

// The module, loaded. It must be there before LibTorch is first asked for anything of CUDA, which
// drawing random numbers is: LibTorch looks once. Throws ConfigError with the reason.
const DeviceModule& device_module();

// What the driver says of a device that is a GPU.
const Gpu& gpu_of(at::Device device);

// The most memory of a device that tensors have held at once in this process; none of the CPU.
std::optional<std::int64_t> peak_bytes(at::Device device);

// Waits until the device has done all that this process has given it. For benchmarks: nothing that
// other ranks depend on may be in it, for the wait has no limit.
void finish_on(at::Device device);

// What --device says.
struct DeviceChoice {
  enum class Kind { kAuto, kCpu, kCuda };
  Kind kind = Kind::kAuto;
  std::optional<int> index;  // cuda:N
  bool operator==(const DeviceChoice&) const = default;
};
// "auto", "cpu", "cuda", "cuda:1". Throws ConfigError.
DeviceChoice parse_device(const std::string& text);
std::string text_of(const DeviceChoice& choice);

// The number of one of these GPUs: that of `choice`, or those that can be used dealt in turn to the
// processes of this machine, of which this is number `place`. Throws ConfigError where the driver
// is too old for the module, the GPU's architecture was not built, or the number is too large.
int choose_gpu(const DeviceChoice& choice, int place, const GpuDriver& driver,
               const DeviceModule& module);

// The device of one process.
struct DeviceFound {
  at::Device device = at::Device(at::kCPU);
  std::string note;  // why it is the CPU although nobody asked for that; empty: nothing to say
};
// The process is number `place` of those of this machine. With kAuto the CPU where there is no GPU.
// Loads the module if a GPU is found, and makes the GPU the current one of the calling thread.
// Throws ConfigError.
DeviceFound find_device(const DeviceChoice& choice, int place);

}  // namespace daso
