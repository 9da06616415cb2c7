// SPDX-License-Identifier: Apache-2.0
#include "daso/base/gpus.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

// The few of the driver's functions and numbers that we use, as cuda.h has them.
using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kNoDevice = 100;
constexpr int kMajor = 75;
constexpr int kMinor = 76;
constexpr int kPciBus = 33;
constexpr int kPciDevice = 34;
constexpr int kPciDomain = 50;

struct Calls {
  Result (*init)(unsigned flags);
  Result (*driver_version)(int* version);
  Result (*count)(int* count);
  Result (*name)(char* name, int bytes, int device);
  Result (*memory)(std::size_t* bytes, int device);
  Result (*attribute)(int* value, int attribute, int device);
  Result (*can_access_peer)(int* can, int device, int peer);
  Result (*error_text)(Result result, const char** text);
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// What a driver of any age has.
bool find_all(void* library, Calls& calls) {
  return find(library, "cuInit", calls.init) &&
         find(library, "cuDriverGetVersion", calls.driver_version) &&
         find(library, "cuDeviceGetCount", calls.count) &&
         find(library, "cuDeviceGetName", calls.name) &&
         find(library, "cuDeviceTotalMem_v2", calls.memory) &&
         find(library, "cuDeviceGetAttribute", calls.attribute) &&
         find(library, "cuDeviceCanAccessPeer", calls.can_access_peer) &&
         find(library, "cuGetErrorString", calls.error_text);
}

std::string text_of(const Calls& calls, Result result) {
  const char* text = nullptr;
  calls.error_text(result, &text);
  return fmt::format("'{}' (error {})", text == nullptr ? "unknown error" : text, result);
}

// From a line like "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05 Release...".
std::string driver_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos) {
      return word;
    }
  }
  return "";
}

Gpu gpu_at(const Calls& calls, int device) {
  const auto attribute = [&](int which) {
    int value = 0;
    calls.attribute(&value, which, device);
    return value;
  };
  std::array<char, 256> name{};
  std::size_t bytes = 0;
  calls.name(name.data(), static_cast<int>(name.size()), device);
  calls.memory(&bytes, device);
  return {.name = name.data(),
          .major = attribute(kMajor),
          .minor = attribute(kMinor),
          .memory_bytes = static_cast<std::int64_t>(bytes),
          .bus = fmt::format("{:04x}:{:02x}:{:02x}", attribute(kPciDomain), attribute(kPciBus),
                             attribute(kPciDevice))};
}

std::string visible_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", visible);
}

struct Found {
  GpuDriver driver;
  Calls calls{};
};

Found look() {
  Found found;
  GpuDriver& driver = found.driver;
  void* library = ::dlopen(kGpuDriver, RTLD_NOW | RTLD_LOCAL);
  driver.there = library != nullptr;
  if (!driver.there) {
    driver.problem =
        fmt::format("there is no NVIDIA driver here ({} cannot be loaded)", kGpuDriver);
    return found;
  }
  const Calls& calls = found.calls;
  driver.release = driver_release();
  if (!find_all(library, found.calls)) {
    driver.problem =
        fmt::format("{} is not what NVIDIA's driver brings: {}", kGpuDriver, ::dlerror());
    return found;
  }
  calls.driver_version(&driver.cuda);
  int count = 0;
  Result result = calls.init(0);
  if (result == kSuccess) result = calls.count(&count);
  if (result != kSuccess && result != kNoDevice) {
    driver.problem =
        fmt::format("the NVIDIA driver does not start: it says {}", text_of(calls, result));
    return found;
  }
  for (int device = 0; device < count; ++device) driver.gpus.push_back(gpu_at(calls, device));
  if (count == 0) {
    driver.problem = fmt::format(
        "there is an NVIDIA driver, but no GPU that this process may use{}", visible_devices());
  }
  return found;
}

const Found& found() {
  static const Found kFound = look();
  return kFound;
}

// One word of the list: a number, "a" or "f", "-real" or "-virtual".
bool one_built_for(std::string_view word, const Gpu& gpu) {
  constexpr int kTen = 10;
  const std::size_t end = std::min(word.find_first_not_of("0123456789"), word.size());
  const std::string_view kind = word.substr(end);
  const auto number = static_cast<int>(parse_integer(word.substr(0, end)).value_or(0));
  const int own = gpu.major * kTen + gpu.minor;
  if (kind.starts_with('a')) return own == number;
  const bool same_major = gpu.major == number / kTen;
  if (kind.starts_with('f')) return same_major && own >= number;
  const bool machine_code = !kind.ends_with("virtual") && same_major;
  const bool ptx = !kind.ends_with("real");
  return (machine_code || ptx) && own >= number;
}

}  // namespace

const GpuDriver& gpu_driver() { return found().driver; }

std::vector<std::pair<int, int>> gpu_peers() {
  const auto reaches = [](int device, int peer) {
    int can = 0;
    return found().calls.can_access_peer(&can, device, peer) == kSuccess && can != 0;
  };
  std::vector<std::pair<int, int>> pairs;
  const auto number = static_cast<int>(gpu_driver().gpus.size());
  for (int first = 0; first < number; ++first) {
    for (int second = first + 1; second < number; ++second) {
      if (reaches(first, second) && reaches(second, first)) pairs.emplace_back(first, second);
    }
  }
  return pairs;
}

std::string cuda_version_text(int version) {
  constexpr int kMajorUnit = 1000;
  constexpr int kMinorUnit = 10;
  return fmt::format("{}.{}", version / kMajorUnit, version % kMajorUnit / kMinorUnit);
}

bool built_for(std::string_view architectures, const Gpu& gpu) {
  for (const std::string& word : split(architectures, ' ')) {
    if (one_built_for(word, gpu)) return true;
  }
  return false;
}

}  // namespace daso
