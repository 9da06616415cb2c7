// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include "daso/base/worker.h"
#include "daso/comm/link/device_copies.h"

namespace daso::test {

// A stand-in for a GPU: its memory is the host's, but copies are done by a thread of its own, in
// order and late. Whoever touches their memory too early reads old values, and ThreadSanitizer sees
// it.
class LateCopies final : public DeviceCopies {
 public:
  // While `hangs` is true no copy gets done.
  explicit LateCopies(Seconds late = Seconds(0.0001), const std::atomic<bool>* hangs = nullptr)
      : late_(late), hangs_(hangs) {}

  at::Device device() const override { return at::Device(at::kCPU); }
  at::Tensor host_room(at::IntArrayRef sizes, at::ScalarType type) const override {
    return at::full(sizes, 111, type);
  }
  void begin(const at::Tensor& to, const at::Tensor& from) override {
    bytes_ += static_cast<std::int64_t>(from.nbytes());
    stream_.post([this, to, from] {
      std::this_thread::sleep_for(late_);
      while (hangs_ != nullptr && *hangs_) std::this_thread::sleep_for(Seconds(0.001));
      if (from.nbytes() == 0) return;
      std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
    });
  }

  std::int64_t bytes() const { return bytes_; }  // that were copied until now

 private:
  void mark() override {
    stream_.post([this, number = ++marks_] { reached_ = number; });
  }
  bool marked_are_done() const override { return reached_ == marks_; }

  const Seconds late_;
  const std::atomic<bool>* hangs_;
  std::int64_t bytes_ = 0;
  std::int64_t marks_ = 0;
  std::atomic<std::int64_t> reached_ = 0;
  Worker stream_{"late copies"};  // last: it uses the others
};

}  // namespace daso::test
