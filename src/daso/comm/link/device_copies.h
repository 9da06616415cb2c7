// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <memory>

#include "daso/comm/link/polling.h"

namespace daso {

// How tensors of one device reach the host's memory and return. Copies are begun here and done by
// the device, behind what the calling thread's current stream has been given; until then nobody may
// touch either side. For one thread at a time.
class DeviceCopies {
 public:
  virtual ~DeviceCopies() = default;

  virtual at::Device device() const = 0;
  // Memory of the host that the device reads and writes by itself, of this size and type.
  virtual at::Tensor host_room(at::IntArrayRef sizes, at::ScalarType type) const = 0;
  // Both are contiguous and of the same size and type, one on the device and one in a host_room().
  virtual void begin(const at::Tensor& to, const at::Tensor& from) = 0;

  // Waits until all copies that were begun are done; throws as Pending::wait does.
  void wait(const Wait& wait);

 private:
  virtual void mark() = 0;  // remembers which copies have been begun
  virtual bool marked_are_done() const = 0;
};

// For a GPU: pinned memory, and an event of the current stream.
std::unique_ptr<DeviceCopies> copies_of(at::Device device);

}  // namespace daso
