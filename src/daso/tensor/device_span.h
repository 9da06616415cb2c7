// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daso/base/timeline.h"
#include "daso/tensor/lane.h"

namespace daso {

// What a device is given from here to the end of the block, as an event of a trace with the times
// at which the device did it. It is asked for them when the trace is written, so nobody waits.
// Nothing where nothing is recorded, and on the CPU.
class DeviceSpan {
 public:
  enum class Of {
    kCaller,  // what is given to the calling thread's current stream
    kLane
  };
  // Timeline and lane are borrowed.
  DeviceSpan(Timeline& timeline, Lane& lane, Of of, const char* name, std::int64_t number);
  DeviceSpan(const DeviceSpan&) = delete;
  DeviceSpan& operator=(const DeviceSpan&) = delete;
  ~DeviceSpan();

 private:
  std::shared_ptr<LaneMark> moment() const;

  Timeline& timeline_;
  Lane& lane_;
  const Of of_;
  const char* name_;
  const std::int64_t number_;
  const std::shared_ptr<LaneMark> begin_;  // null: nothing is recorded
};

}  // namespace daso
