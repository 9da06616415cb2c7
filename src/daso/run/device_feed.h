// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "daso/comm/world.h"
#include "daso/data/batch.h"
#include "daso/tensor/lane.h"

namespace daso {

// Brings the batches of a loader to the device where the network is, and makes inputs of raw ones
// there. All of it is done beside training and one batch ahead: while the device computes a step,
// the next one's batch arrives. On the CPU a batch stays where it is, and none is taken ahead.
//
// Batches lie in two buffers by turns. One is written again when the device has done what it was
// given while that batch was the newest; where somebody still holds the batch, new memory takes its
// place. Memory of the host is held until it is copied.
class DeviceFeed {
 public:
  // The world is borrowed and outlives it: waiting for the device ends when a rank is lost.
  DeviceFeed(World& world, at::Device device);
  // With another lane than the device's, for tests.
  DeviceFeed(World& world, at::Device device, std::unique_ptr<Lane> lane);
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;
  ~DeviceFeed();

  at::Device device() const { return device_; }

  // Begins a sequence: the next `batches` ones of a loader, whether or not the one before is over.
  // The loader is borrowed until the last of them, or the next start().
  template <typename AnyLoader>
  void start(AnyLoader& loader, std::int64_t batches) {
    begin([&loader] { return loader.next(); }, [&loader] { return loader.ready() > 0; }, batches);
  }

  // The next one, on the device. Throws what the loader throws, when it is the turn of the batch of
  // which it does. The one behind it is taken ahead if the loader has it ready.
  Batch next();

 private:
  // On the device.
  struct Buffer {
    Batch batch;        // as it came from the host
    at::Tensor inputs;  // made of it, where it is raw
  };
  // On the host, while it is being copied.
  struct Held {
    Batch batch;
    std::shared_ptr<LaneMark> copied;
  };

  void begin(std::function<Batch()> take, std::function<bool()> is_ready, std::int64_t batches);
  std::optional<Batch> take_ahead();
  void bring(Batch batch);
  void let_go();

  World& world_;
  const at::Device device_;
  const std::unique_ptr<Lane> lane_;
  std::function<Batch()> take_;
  std::function<bool()> is_ready_;
  std::int64_t left_ = 0;  // batches of the sequence that have not been taken
  std::array<Buffer, 2> buffers_;
  std::size_t newest_ = 0;  // of the buffers
  bool ahead_ = false;      // the newest has not been given out
  std::deque<Held> held_;
};

}  // namespace daso
