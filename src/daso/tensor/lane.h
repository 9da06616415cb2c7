// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>
#include <optional>

#include "daso/base/seconds.h"

namespace daso {

// A place in what a device has been given to do.
class LaneMark {
 public:
  virtual ~LaneMark() = default;
  // True once the device has come past it. Does not wait; from any thread.
  virtual bool reached() const = 0;
  // When that was, on the clock of the host. None of a mark that is no moment (Lane::moment()), and
  // of one that is not reached.
  virtual std::optional<Clock::time_point> time() const { return std::nullopt; }
};

// What a device does for us beside training: copies to the host and back, and kernels for
// communication. It is done in the order in which it was asked for, after the call has returned. On
// a GPU a lane is a stream; on the CPU it does at once what it is asked for, and nobody waits.
//
// "The caller" is the calling thread's current stream, to which LibTorch gives its work. One thread
// at a time may use a lane.
class Lane {
 public:
  virtual ~Lane() = default;

  // Tensors lie elsewhere than in memory of the host, and are copied there and back.
  virtual bool copies() const = 0;

  // All that the caller has been given so far. From any thread.
  virtual std::shared_ptr<LaneMark> mark_of_caller() = 0;
  // What the lane is asked for from now on begins when the mark is reached.
  virtual void follow(const LaneMark& mark) = 0;
  // All that the lane has been asked for so far.
  virtual std::shared_ptr<LaneMark> mark() = 0;
  // What the caller is given from now on begins when the lane has done all of that. The thread does
  // not wait.
  virtual void lead_caller() = 0;

  // Marks that know their time, for a trace: dearer than others. Null where there is none to know,
  // as on the CPU.
  virtual std::shared_ptr<LaneMark> moment_of_caller() = 0;  // from any thread
  virtual std::shared_ptr<LaneMark> moment() = 0;

  // Memory of the host for a tensor's values, from and to which copies are quick; where the lane
  // does not copy, the tensor itself.
  virtual at::Tensor host_room(const at::Tensor& like) = 0;
  // Both stay as they are until a mark behind the copy is reached.
  virtual void copy(const at::Tensor& to, const at::Tensor& from) = 0;
  // Calls `work` with the lane as the caller: what LibTorch and the kernels are given in it belongs
  // to the lane.
  virtual void run(const std::function<void()>& work) = 0;
};

// For tensors on this device.
std::unique_ptr<Lane> open_lane(at::Device device);

// The caller follows the lane when this ends: memory that the lane still uses goes back to where
// the caller takes its own from. To be declared behind that memory, and before a thread that uses
// the lane. The lane is borrowed.
class LaneEnd {
 public:
  explicit LaneEnd(Lane& lane) : lane_(lane) {}
  LaneEnd(const LaneEnd&) = delete;
  LaneEnd& operator=(const LaneEnd&) = delete;
  ~LaneEnd();

 private:
  Lane& lane_;
};

// The two of a lane's services for which nobody needs one: memory of the host as host_room() gives
// it for a tensor of a device, and all that the caller has been given so far on this one.
at::Tensor pinned_room(const at::Tensor& like);
std::shared_ptr<LaneMark> mark_of_caller(at::Device device);

// While it lives the calling thread gives its work to a stream of its own, always the same, not to
// the device's default one: a graph can be captured from it, and side by side with it lanes go on.
// Before and after, the two streams wait for each other. On the CPU it does nothing.
class TrainingStream {
 public:
  explicit TrainingStream(at::Device device);
  TrainingStream(const TrainingStream&) = delete;
  TrainingStream& operator=(const TrainingStream&) = delete;
  ~TrainingStream();

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;  // null on the CPU
};

}  // namespace daso
