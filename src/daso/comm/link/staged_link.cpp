// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/staged_link.h"

#include <ATen/ATen.h>

#include "daso/comm/link/cut.h"

namespace daso {

StagedLink::StagedLink(NodeLink& host, at::Device device, std::shared_ptr<Lane> lane, LinkName name,
                       Guard guard)
    : host_(host),
      device_(device),
      lane_(std::move(lane)),
      name_(std::move(name)),
      guard_(std::move(guard)) {}

void StagedLink::reduce(const at::Tensor& tensor, Slices slices, Seconds limit) {
  const Cut cut("reduce", tensor, slices, size(), device_);
  check_reduced(tensor);
  if (size() == 1) return;
  const Wait wait = begin(cut, limit);
  const at::Tensor host = host_room_for(tensor);
  lane_->copy(host, tensor);
  finish_copies(wait);
  host_.reduce(host, slices, wait.deadline.left());
  const Segment own = cut.owned_by(rank());
  lane_->copy(elements_of(tensor, own), elements_of(host, own));
  finish_copies(wait);
}

void StagedLink::gather(const at::Tensor& tensor, Slices slices, Seconds limit) {
  const Cut cut("gather", tensor, slices, size(), device_);
  if (size() == 1) return;
  const Wait wait = begin(cut, limit);
  const at::Tensor host = host_room_for(tensor);
  const Segment own = cut.owned_by(rank());
  lane_->copy(elements_of(host, own), elements_of(tensor, own));
  finish_copies(wait);
  host_.gather(host, slices, wait.deadline.left());
  for (const Segment others : {Segment{0, own.begin}, Segment{own.end, tensor.numel()}}) {
    lane_->copy(elements_of(tensor, others), elements_of(host, others));
  }
  finish_copies(wait);
}

Wait StagedLink::begin(const Cut& cut, Seconds limit) {
  lane_->follow(*lane_->mark_of_caller());
  return {.guard = guard_,
          .call = {.what = cut.text(), .group = name_.text, .number = begun_++},
          .limit = limit};
}

void StagedLink::finish_copies(const Wait& wait) {
  const std::shared_ptr<LaneMark> done = lane_->mark();
  poll(wait, [&] { return done->reached(); });
}

// The copies of the last call are over, so its room can be used again.
at::Tensor StagedLink::host_room_for(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  if (!room_.defined() || room_.numel() < bytes) {
    room_ = lane_->host_room(tensor.flatten().view(at::kByte));
  }
  return room_.narrow(0, 0, bytes).view(tensor.scalar_type()).view(tensor.sizes());
}

}  // namespace daso
