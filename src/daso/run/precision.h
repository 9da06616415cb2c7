// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/DeviceType.h>

#include <optional>
#include <string_view>

namespace daso {

// Of the forward and backward arithmetic. Parameters, gradients, the optimizer and all that travels
// stay fp32.
enum class Precision { kFp32, kBf16, kFp16 };

// What --precision takes; none if nothing has this name.
std::string_view name_of(Precision precision);
std::optional<Precision> find_precision(std::string_view name);

// While it lives, LibTorch casts the inputs of convolutions and matrix products of this thread on
// such a device, and leaves what needs the range to fp32 (autocast).
class Autocast {
 public:
  explicit Autocast(Precision precision, c10::DeviceType device = c10::kCPU);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  const bool active_;
  const c10::DeviceType device_;
};

// While one lives, LibTorch computes on GPUs as a run does: fp32 is fp32 (no TF32); and the fastest
// of cuDNN's algorithms is found by trying them, or, where the same bits are wanted each time, only
// such are used that give them (--deterministic), which holds if one of several asks for it. It is
// so for all threads of the process, and as before when the last one is gone. On the CPU it does
// nothing.
class GpuArithmetic {
 public:
  explicit GpuArithmetic(c10::DeviceType device, bool deterministic = false);
  GpuArithmetic(const GpuArithmetic&) = delete;
  GpuArithmetic& operator=(const GpuArithmetic&) = delete;
  ~GpuArithmetic();

 private:
  const bool active_;
  const bool deterministic_;
};

}  // namespace daso
