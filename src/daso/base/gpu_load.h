// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "daso/base/seconds.h"

namespace daso {

inline constexpr const char* kGpuManagement = "libnvidia-ml.so.1";

// How busy a GPU is, as NVIDIA's management library tells, which comes with the driver and is
// looked for when the first of these is made. For one thread.
class GpuLoad {
 public:
  // The GPU at this PCI address (Gpu::bus).
  explicit GpuLoad(const std::string& bus);

  // The share of the last moments in which the GPU was at work for anybody, 0 ... 1; none where
  // there is no such library, or it does not know the GPU. Asks once a second at most, since it
  // takes the library up to a millisecond.
  std::optional<double> share();

 private:
  void* gpu_ = nullptr;  // the library's name for it; null: not known
  std::optional<double> share_;
  std::optional<Clock::time_point> asked_;
};

}  // namespace daso
