// SPDX-License-Identifier: Apache-2.0
#include "daso/run/device_feed.h"

#include <ATen/ATen.h>

#include <utility>

#include "daso/base/error.h"
#include "daso/data/raw_images.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

// Batches whose copies are not over. The device is then so many steps behind, and to take more for
// it would only take memory.
constexpr std::size_t kMostHeld = 4;

bool is_like(const at::Tensor& room, const at::Tensor& like, at::ScalarType type) {
  return room.defined() && room.layout() == at::kStrided && like.layout() == at::kStrided &&
         room.scalar_type() == type && room.sizes() == like.sizes() &&
         room.strides() == like.strides();
}

// Gives the tensor memory of this form, unless it has it and nobody else holds it.
void make_room(at::Tensor& room, const at::Tensor& like, at::ScalarType type, at::Device device) {
  if (!like.defined()) {
    room.reset();
  } else if (!is_like(room, like, type) || !held_once(room)) {
    room = at::empty_like(like, at::TensorOptions(type).device(device));
  }
}

}  // namespace

DeviceFeed::DeviceFeed(World& world, at::Device device)
    : DeviceFeed(world, device, open_lane(device)) {}

DeviceFeed::DeviceFeed(World& world, at::Device device, std::unique_ptr<Lane> lane)
    : world_(world), device_(device), lane_(std::move(lane)) {}

// The buffers go back to where the caller takes memory from. It must not use it before a copy that
// nobody has waited for.
DeviceFeed::~DeviceFeed() {
  try {
    if (ahead_) lane_->lead_caller();
  } catch (const std::exception&) {  // a device that has failed: others have said so, or will
    ahead_ = false;
  }
}

void DeviceFeed::begin(std::function<Batch()> take, std::function<bool()> is_ready,
                       std::int64_t batches) {
  if (std::exchange(ahead_, false)) lane_->lead_caller();  // as above
  take_ = std::move(take);
  is_ready_ = std::move(is_ready);
  left_ = batches;
}

Batch DeviceFeed::next() {
  DASO_ASSERT(ahead_ || left_ > 0);  // the sequence is over
  if (!lane_->copies()) {
    Batch batch = take_();
    --left_;
    return batch;
  }
  if (!ahead_) bring(take_());
  lane_->lead_caller();
  ahead_ = false;
  const auto& [copied, made] = buffers_[newest_];
  Batch batch{.inputs = copied.is_raw() ? made : copied.inputs, .labels = copied.labels};
  if (std::optional<Batch> behind = take_ahead()) bring(*std::move(behind));
  return batch;
}

// None where that would wait for the loader, and where the loader throws: it does so again when it
// is this batch's turn.
std::optional<Batch> DeviceFeed::take_ahead() {
  try {
    if (left_ > 0 && is_ready_()) return take_();
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

// To the buffer that is not the newest.
void DeviceFeed::bring(Batch batch) {
  --left_;
  let_go();
  newest_ = (newest_ + 1) % buffers_.size();
  ahead_ = true;
  auto& [copy, made] = buffers_[newest_];
  const std::array<std::pair<at::Tensor*, const at::Tensor*>, 4> parts = {{
      {&copy.inputs, &batch.inputs},
      {&copy.labels, &batch.labels},
      {&copy.placements, &batch.placements},
      {&copy.values, &batch.values},
  }};
  for (const auto& [to, from] : parts) {
    make_room(*to, *from, from->defined() ? from->scalar_type() : at::kFloat, device_);
  }
  make_room(made, batch.is_raw() ? batch.inputs : at::Tensor(), at::kFloat, device_);
  // What the caller has been given may still read the buffer, or what lay in its memory before.
  lane_->follow(*lane_->mark_of_caller());
  for (const auto& [to, from] : parts) {
    if (from->defined()) lane_->copy(*to, *from);
  }
  if (batch.is_raw()) {
    lane_->run([&] { place_images(copy, made, kernels_of(made)); });
  }
  held_.push_back({std::move(batch), lane_->mark()});
}

void DeviceFeed::let_go() {
  const auto is_copied = [this] { return held_.front().copied->reached(); };
  if (held_.size() == kMostHeld) world_.wait_until(is_copied, "copying a batch to the device");
  while (!held_.empty() && is_copied()) held_.pop_front();
}

}  // namespace daso
