// SPDX-License-Identifier: Apache-2.0
//
// A libnvidia-ml.so.1 that answers as the environment says, for machines that have no driver:
//   STAND_IN_LOAD  the percent in which its one GPU, 0000:1a:00, is at work; empty: it does not say
#include <cstdlib>
#include <cstring>

namespace {
int the_gpu = 0;
}  // namespace

extern "C" {

struct Rates {
  unsigned gpu;
  unsigned memory;
};

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** gpu) {
  constexpr int kNotFound = 6;
  *gpu = &the_gpu;
  return std::strcmp(bus, "0000:1a:00.0") == 0 ? 0 : kNotFound;
}

int nvmlDeviceGetUtilizationRates(void* gpu, Rates* rates) {
  constexpr int kNotSupported = 3;
  const char* load = std::getenv("STAND_IN_LOAD");
  if (gpu != &the_gpu || load == nullptr) return kNotSupported;
  rates->gpu = static_cast<unsigned>(std::atoi(load));
  return 0;
}
}
