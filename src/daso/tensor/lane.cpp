// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/lane.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <map>

#include "daso/base/error.h"

namespace daso {
namespace {

class AtOnce final : public Lane {
 public:
  struct Reached final : LaneMark {
    bool reached() const override { return true; }
  };

  bool copies() const override { return false; }
  std::shared_ptr<LaneMark> mark_of_caller() override { return std::make_shared<Reached>(); }
  void follow(const LaneMark& /*mark*/) override {}
  std::shared_ptr<LaneMark> mark() override { return std::make_shared<Reached>(); }
  void lead_caller() override {}
  at::Tensor host_room(const at::Tensor& like) override { return like; }
  void copy(const at::Tensor& to, const at::Tensor& from) override {
    if (to.const_data_ptr() != from.const_data_ptr()) to.copy_(from);
  }
  void run(const std::function<void()>& work) override { work(); }
};

class StreamMark final : public LaneMark {
 public:
  explicit StreamMark(const c10::Stream& stream) : event_(stream.device_type()) {
    event_.record(stream);
  }
  bool reached() const override { return event_.query(); }
  void block(const c10::Stream& stream) const { event_.block(stream); }

 private:
  c10::Event event_;
};

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

class StreamLane final : public Lane {
 public:
  // Of high priority: its kernels are few and short, and others wait for them.
  explicit StreamLane(at::Device device)
      : stream_(c10::impl::VirtualGuardImpl(device.type())
                    .getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

  bool copies() const override { return true; }
  std::shared_ptr<LaneMark> mark_of_caller() override {
    return std::make_shared<StreamMark>(current_stream(stream_.device()));
  }
  void follow(const LaneMark& mark) override {
    dynamic_cast<const StreamMark&>(mark).block(stream_);
  }
  std::shared_ptr<LaneMark> mark() override { return std::make_shared<StreamMark>(stream_); }
  void lead_caller() override { StreamMark(stream_).block(current_stream(stream_.device())); }
  at::Tensor host_room(const at::Tensor& like) override {
    return at::empty(like.sizes(), like.options().device(at::kCPU).pinned_memory(true));
  }
  void copy(const at::Tensor& to, const at::Tensor& from) override {
    const c10::StreamGuard guard(stream_);
    to.copy_(from, /*non_blocking=*/true);
  }
  void run(const std::function<void()>& work) override {
    const c10::StreamGuard guard(stream_);
    work();
  }

 private:
  const c10::Stream stream_;
};

}  // namespace

std::unique_ptr<Lane> open_lane(at::Device device) {
  if (device.is_cpu()) return std::make_unique<AtOnce>();
  return std::make_unique<StreamLane>(device);
}

namespace {

// Always the same: LibTorch's gradient accumulators keep the stream that they were made under, and
// a graph that is captured from another would have to wait for it.
c10::Stream stream_of_thread(at::Device device) {
  thread_local std::map<c10::DeviceIndex, c10::Stream> streams;
  const auto known = streams.find(device.index());
  if (known != streams.end()) return known->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams.emplace(device.index(), guard.getStreamFromGlobalPool(device)).first->second;
}

}  // namespace

struct TrainingStream::Streams {
  explicit Streams(at::Device device)
      : before(current_stream(device)), own(stream_of_thread(device)), guard(own) {
    StreamMark(before).block(own);
  }
  ~Streams() {
    try {
      StreamMark(own).block(before);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
      // A device that has failed: the error under way says so, or the next call will.
    }
  }

  const c10::Stream before;
  const c10::Stream own;
  const c10::StreamGuard guard;
};

TrainingStream::TrainingStream(at::Device device) {
  if (!device.is_cpu()) streams_ = std::make_unique<Streams>(device);
}

TrainingStream::~TrainingStream() = default;

}  // namespace daso
