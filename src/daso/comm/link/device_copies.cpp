// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/device_copies.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace daso {
namespace {

class StreamCopies final : public DeviceCopies {
 public:
  explicit StreamCopies(at::Device device) : device_(device), event_(device.type()) {}

  at::Device device() const override { return device_; }
  // LibTorch keeps pinned memory and hands it out again, once no copy uses it any more.
  at::Tensor host_room(at::IntArrayRef sizes, at::ScalarType type) const override {
    return at::empty(sizes, at::TensorOptions(type).pinned_memory(true));
  }
  void begin(const at::Tensor& to, const at::Tensor& from) override {
    to.copy_(from, /*non_blocking=*/true);
  }

 private:
  void mark() override {
    event_.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  bool marked_are_done() const override { return event_.query(); }

  const at::Device device_;
  c10::Event event_;
};

}  // namespace

void DeviceCopies::wait(const Wait& wait) {
  mark();
  poll(wait, [this] { return marked_are_done(); });
}

std::unique_ptr<DeviceCopies> copies_of(at::Device device) {
  return std::make_unique<StreamCopies>(device);
}

}  // namespace daso
