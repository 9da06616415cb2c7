// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/lane.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <chrono>
#include <map>
#include <mutex>

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
  std::shared_ptr<LaneMark> moment_of_caller() override { return nullptr; }
  std::shared_ptr<LaneMark> moment() override { return nullptr; }
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

// An event whose time on the host's clock is known. Devices count from a beginning of their own.
struct ClockReference {
  explicit ClockReference(c10::DeviceType device)
      : event(device, c10::EventFlag::BACKEND_DEFAULT) {}
  c10::Event event;
  Clock::time_point when;
};

// Records one and waits for it, asking without a pause: what it is late by, all moments are. Null
// where the device does not come to it.
std::shared_ptr<const ClockReference> refer_to_clock(at::Device device) {
  constexpr Seconds kPatience{1};
  const c10::impl::VirtualGuardImpl guard(device.type());
  auto reference = std::make_shared<ClockReference>(device.type());
  reference->event.record(guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true));
  const Deadline deadline(kPatience);
  while (!reference->event.query()) {
    if (deadline.passed()) return nullptr;
  }
  reference->when = Clock::now();
  return reference;
}

class StreamMoment final : public LaneMark {
 public:
  StreamMoment(const c10::Stream& stream, std::shared_ptr<const ClockReference> reference)
      : event_(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT),
        reference_(std::move(reference)) {
    event_.record(stream);
  }
  bool reached() const override { return event_.query(); }
  std::optional<Clock::time_point> time() const override {
    if (!reached()) return std::nullopt;
    const std::chrono::duration<double, std::milli> later(reference_->event.elapsedTime(event_));
    return reference_->when + std::chrono::duration_cast<Clock::duration>(later);
  }

 private:
  c10::Event event_;
  const std::shared_ptr<const ClockReference> reference_;
};

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
  std::shared_ptr<LaneMark> moment_of_caller() override {
    return moment_of(current_stream(stream_.device()));
  }
  std::shared_ptr<LaneMark> moment() override { return moment_of(stream_); }
  at::Tensor host_room(const at::Tensor& like) override { return pinned_room(like); }
  void copy(const at::Tensor& to, const at::Tensor& from) override {
    const c10::StreamGuard guard(stream_);
    to.copy_(from, /*non_blocking=*/true);
  }
  void run(const std::function<void()>& work) override {
    const c10::StreamGuard guard(stream_);
    work();
  }

 private:
  std::shared_ptr<LaneMark> moment_of(const c10::Stream& stream) {
    const auto reference = current_reference();
    return reference ? std::make_shared<StreamMoment>(stream, reference) : nullptr;
  }
  // Now and then a new one: clocks drift, and a device counts milliseconds in single precision.
  std::shared_ptr<const ClockReference> current_reference() {
    constexpr Seconds kGoodFor{20};
    const std::lock_guard lock(mutex_);
    if (!reference_ || since(reference_->when) > kGoodFor) {
      reference_ = refer_to_clock(stream_.device());
    }
    return reference_;
  }

  const c10::Stream stream_;
  std::mutex mutex_;  // guards the reference
  std::shared_ptr<const ClockReference> reference_;
};

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

std::unique_ptr<Lane> open_lane(at::Device device) {
  if (device.is_cpu()) return std::make_unique<AtOnce>();
  return std::make_unique<StreamLane>(device);
}

LaneEnd::~LaneEnd() {
  try {
    lane_.lead_caller();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // A device that has failed: others have said so, or will.
  }
}

at::Tensor pinned_room(const at::Tensor& like) {
  return at::empty(like.sizes(), like.options().device(at::kCPU).pinned_memory(true));
}

std::shared_ptr<LaneMark> mark_of_caller(at::Device device) {
  if (device.is_cpu()) return std::make_shared<AtOnce::Reached>();
  return std::make_shared<StreamMark>(current_stream(device));
}

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
