// SPDX-License-Identifier: Apache-2.0
#include "daso/run/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/util/env.h>

#include <array>
#include <mutex>
#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr std::array kNames = {std::pair{"fp32", Precision::kFp32},
                               std::pair{"bf16", Precision::kBf16},
                               std::pair{"fp16", Precision::kFp16}};

}  // namespace

std::string_view name_of(Precision precision) {
  for (const auto& [name, value] : kNames) {
    if (value == precision) return name;
  }
  return "";
}

std::optional<Precision> find_precision(std::string_view name) {
  for (const auto& [known, value] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

Autocast::Autocast(Precision precision, c10::DeviceType device)
    : active_(precision != Precision::kFp32), device_(device) {
  if (!active_) return;
  DASO_ASSERT(!at::autocast::is_autocast_enabled(device_));  // one at a time
  at::autocast::set_autocast_dtype(device_,
                                   precision == Precision::kBf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::set_autocast_enabled(device_, true);
}

Autocast::~Autocast() {
  if (!active_) return;
  at::autocast::set_autocast_enabled(device_, false);
  at::autocast::clear_cache();  // of parameters, which the next step changes
}

namespace {

// How LibTorch computes on GPUs.
struct GpuWays {
  bool tries_algorithms = true;
  bool deterministic = false;
  bool warns_only = true;  // an overlapping max pool may add in any order: no reason to end a run
  bool fills_memory = false;
  bool tf32_convolutions = false;
  bool tf32_products = false;
  // Attention without its matrix in memory. Backward it adds in any order.
  bool flash_attention = true;
  bool efficient_attention = true;
  bool cudnn_attention = true;
};

GpuWays current_ways() {
  const at::Context& context = at::globalContext();
  return {.tries_algorithms = context.benchmarkCuDNN(),
          .deterministic = context.deterministicAlgorithms(),
          .warns_only = context.deterministicAlgorithmsWarnOnly(),
          .fills_memory = context.deterministicFillUninitializedMemory(),
          .tf32_convolutions = context.allowTF32CuDNN(),
          .tf32_products = context.allowTF32CuBLAS(),
          .flash_attention = context.userEnabledFlashSDP(),
          .efficient_attention = context.userEnabledMemEfficientSDP(),
          .cudnn_attention = context.userEnabledCuDNNSDP()};
}

void set_ways(const GpuWays& ways) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(ways.tries_algorithms);
  context.setDeterministicAlgorithms(ways.deterministic, ways.warns_only);
  context.setDeterministicFillUninitializedMemory(ways.fills_memory);
  context.setAllowTF32CuDNN(ways.tf32_convolutions);
  context.setAllowTF32CuBLAS(ways.tf32_products);
  context.setSDPUseFlash(ways.flash_attention);
  context.setSDPUseMemEfficient(ways.efficient_attention);
  context.setSDPUseCuDNN(ways.cudnn_attention);
}

// Those of the process that are alive.
struct GpuUsers {
  std::mutex mutex;  // guards what follows
  int all = 0;
  int deterministic = 0;
  GpuWays before;

  void change(int by, bool of_deterministic) {
    const std::lock_guard lock(mutex);
    if (all == 0) before = current_ways();
    all += by;
    if (of_deterministic) deterministic += by;
    const bool free = deterministic == 0;
    set_ways(all == 0 ? before
                      : GpuWays{.tries_algorithms = free,
                                .deterministic = !free,
                                .flash_attention = free,
                                .efficient_attention = free,
                                .cudnn_attention = free});
  }
};

GpuUsers& gpu_users() {
  static GpuUsers users;
  return users;
}

}  // namespace

GpuArithmetic::GpuArithmetic(c10::DeviceType device, bool deterministic)
    : active_(device != c10::kCPU), deterministic_(deterministic) {
  if (!active_) return;
  // cuBLAS gives the same bits where its workspace has a fixed size; LibTorch looks once.
  if (deterministic) c10::utils::set_env("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/false);
  gpu_users().change(1, deterministic);
}

GpuArithmetic::~GpuArithmetic() {
  if (active_) gpu_users().change(-1, deterministic_);
}

}  // namespace daso
