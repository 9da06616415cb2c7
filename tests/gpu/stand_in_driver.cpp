// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 that answers as the environment says, for machines that have no driver:
//   STAND_IN_INIT  what cuInit returns: 0, 100 (no device), 999
//   STAND_IN_CUDA  the newest CUDA that it knows, such as 12080
//   STAND_IN_GPUS  compute capabilities of its GPUs, one after the other: 75,90
// Neighbours reach each other's memory.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

int number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

std::vector<int> gpus() {
  std::vector<int> all;
  const char* text = std::getenv("STAND_IN_GPUS");
  for (std::string rest = text == nullptr ? "" : text; !rest.empty();) {
    const std::size_t end = rest.find(',');
    all.push_back(std::atoi(rest.c_str()));
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return all;
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) { return number_of("STAND_IN_INIT"); }

int cuDriverGetVersion(int* version) {
  *version = number_of("STAND_IN_CUDA");
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(gpus().size());
  return 0;
}

int cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "Stand-in %d", device);
  return 0;
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int /*device*/) {
  *bytes = std::size_t{8} << 30U;
  return 0;
}

// Of compute capability and PCI address, by the numbers of cuda.h.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = gpus()[static_cast<std::size_t>(device)];
  *value = attribute == 75   ? capability / 10
           : attribute == 76 ? capability % 10
           : attribute == 33 ? 0x1a + device
                             : 0;
  return 0;
}

int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = std::abs(device - peer) == 1 ? 1 : 0;
  return 0;
}

int cuGetErrorString(int /*error*/, const char** text) {
  *text = "a stand-in's error";
  return 0;
}

}  // extern "C"
