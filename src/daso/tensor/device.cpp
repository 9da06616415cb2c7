// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <limits>

#include "daso/base/error.h"
#include "daso/base/module.h"
#include "daso/base/text.h"
#include "daso/base/version.h"

namespace daso {
namespace {

const DeviceModule& load() {
  const Module module = load_module("cuda");
  require(module.handle != nullptr, "the CUDA module, by which GPUs are used, is {}{}",
          module.reason, module_is_built("cuda") ? "" : "; ./daso build --cuda builds it");
  using Entry = const DeviceModule* (*)();
  const auto entry = reinterpret_cast<Entry>(module.entry(kDeviceModuleEntry));
  require(entry != nullptr, "{} is no module of daso", module.file);
  const DeviceModule* device = entry();
  require(std::string_view(device->version) == kVersion,
          "{} is of version {}, daso of {}; build both together", module.file, device->version,
          kVersion);
  return *device;
}

// The driver runs what was built with its own or an older major version of CUDA.
void check_driver(const GpuDriver& driver, const DeviceModule& module) {
  constexpr int kMajor = 1000;
  require(driver.cuda / kMajor >= module.cuda / kMajor,
          "the NVIDIA driver{}{} is too old: it knows CUDA {}, and daso was built with CUDA {}; "
          "install a newer driver",
          driver.release.empty() ? "" : " ", driver.release, cuda_version_text(driver.cuda),
          cuda_version_text(module.cuda));
}

// Why the module cannot use a GPU; empty: it can.
std::string why_not(const GpuDriver& driver, const DeviceModule& module, int index) {
  const Gpu& gpu = driver.gpus[static_cast<std::size_t>(index)];
  if (built_for(module.architectures, gpu)) return "";
  return fmt::format(
      "GPU {} ({}) is of architecture sm_{}{}, for which the CUDA module was not built ({}); "
      "DASO_CUDA_ARCHITECTURES={}{} ./daso build --cuda builds it",
      index, gpu.name, gpu.major, gpu.minor, module.built, gpu.major, gpu.minor);
}

at::Device use_gpu(const DeviceChoice& choice, int place) {
  const GpuDriver& driver = gpu_driver();
  require(driver.problem.empty(), "{}", driver.problem);
  const int index = choose_gpu(choice, place, driver, device_module());
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  return device;
}

}  // namespace

const DeviceModule& device_module() {
  static const DeviceModule& module = load();
  return module;
}

const Gpu& gpu_of(at::Device device) {
  return gpu_driver().gpus.at(static_cast<std::size_t>(device.index()));
}

std::optional<std::int64_t> peak_bytes(at::Device device) {
  if (device.is_cpu()) return std::nullopt;
  constexpr std::size_t kAll = 0;  // sizes of blocks
  return at::getDeviceAllocator(device.type())
      ->getDeviceStats(device.index())
      .allocated_bytes[kAll]
      .peak;
}

void finish_on(at::Device device) {
  if (!device.is_cpu()) {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }
}

DeviceChoice parse_device(const std::string& text) {
  constexpr std::string_view kNumbered = "cuda:";
  if (text == "auto") return {};
  if (text == "cpu") return {.kind = DeviceChoice::Kind::kCpu};
  if (text == "cuda") return {.kind = DeviceChoice::Kind::kCuda};
  if (text.starts_with(kNumbered)) {
    const std::optional<std::int64_t> index = parse_integer(text.substr(kNumbered.size()));
    if (index && *index >= 0 && *index <= std::numeric_limits<int>::max()) {
      return {.kind = DeviceChoice::Kind::kCuda, .index = static_cast<int>(*index)};
    }
  }
  throw ConfigError(fmt::format(
      "a device is cpu, cuda, cuda:N (a GPU by its number, from 0) or auto; got '{}'", text));
}

std::string text_of(const DeviceChoice& choice) {
  switch (choice.kind) {
    case DeviceChoice::Kind::kAuto:
      return "auto";
    case DeviceChoice::Kind::kCpu:
      return "cpu";
    case DeviceChoice::Kind::kCuda:
      break;
  }
  return choice.index ? fmt::format("cuda:{}", *choice.index) : "cuda";
}

int choose_gpu(const DeviceChoice& choice, int place, const GpuDriver& driver,
               const DeviceModule& module) {
  DASO_ASSERT(!driver.gpus.empty());
  check_driver(driver, module);
  const auto number = static_cast<int>(driver.gpus.size());
  if (choice.index) {
    require(*choice.index < number, "this process sees {} GPU{}, numbered from 0", number,
            number == 1 ? "" : "s");
    const std::string reason = why_not(driver, module, *choice.index);
    require(reason.empty(), "{}", reason);
    return *choice.index;
  }
  std::vector<int> usable;
  for (int index = 0; index < number; ++index) {
    if (why_not(driver, module, index).empty()) usable.push_back(index);
  }
  require(!usable.empty(), "{}", why_not(driver, module, 0));
  return usable[static_cast<std::size_t>(place) % usable.size()];
}

DeviceFound find_device(const DeviceChoice& choice, int place) {
  if (choice.kind == DeviceChoice::Kind::kCpu) return {};
  try {
    return {.device = use_gpu(choice, place)};
  } catch (const ConfigError& error) {
    require(choice.kind != DeviceChoice::Kind::kCuda, "device {} was asked for, but {}",
            text_of(choice), error.what());
    return {.note = fmt::format("using the CPU: {}", error.what())};
  }
}

}  // namespace daso
