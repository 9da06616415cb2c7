// SPDX-License-Identifier: Apache-2.0
#include "daso/base/gpu_load.h"

#include <dlfcn.h>

namespace daso {
namespace {

// The few of the library's functions that we use, as nvml.h has them.
using NvmlResult = int;
constexpr NvmlResult kNvmlSuccess = 0;

struct Utilization {
  unsigned gpu = 0;  // percent
  unsigned memory = 0;
};

struct NvmlCalls {
  NvmlResult (*init)() = nullptr;
  NvmlResult (*find)(const char* bus, void** gpu) = nullptr;
  NvmlResult (*utilization)(void* gpu, Utilization* rates) = nullptr;
};

template <typename Function>
bool find_call(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// Null where it is not there, or does not start.
const NvmlCalls* load_nvml() {
  static NvmlCalls calls;
  void* library = ::dlopen(kGpuManagement, RTLD_NOW | RTLD_LOCAL);
  const bool there = library != nullptr && find_call(library, "nvmlInit_v2", calls.init) &&
                     find_call(library, "nvmlDeviceGetHandleByPciBusId_v2", calls.find) &&
                     find_call(library, "nvmlDeviceGetUtilizationRates", calls.utilization);
  return there && calls.init() == kNvmlSuccess ? &calls : nullptr;
}

const NvmlCalls* nvml() {
  static const NvmlCalls* const kCalls = load_nvml();
  return kCalls;
}

}  // namespace

GpuLoad::GpuLoad(const std::string& bus) {
  const std::string address = bus + ".0";  // a GPU is the first function of its card
  if (nvml() != nullptr && nvml()->find(address.c_str(), &gpu_) != kNvmlSuccess) gpu_ = nullptr;
}

std::optional<double> GpuLoad::share() {
  constexpr Seconds kEvery{1};
  constexpr double kPercent = 100;
  if (gpu_ == nullptr || (asked_ && since(*asked_) < kEvery)) return share_;
  asked_ = Clock::now();
  Utilization rates;
  const bool known = nvml()->utilization(gpu_, &rates) == kNvmlSuccess;
  share_ = known ? std::optional(rates.gpu / kPercent) : std::nullopt;
  return share_;
}

}  // namespace daso
