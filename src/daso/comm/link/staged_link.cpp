// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/staged_link.h"

#include <ATen/ATen.h>

#include "daso/comm/link/cut.h"

namespace daso {

StagedLink::StagedLink(NodeLink& host, std::unique_ptr<DeviceCopies> copies, LinkName name,
                       Guard guard)
    : host_(host), copies_(std::move(copies)), name_(std::move(name)), guard_(std::move(guard)) {}

void StagedLink::reduce(const at::Tensor& tensor, Slices slices, Seconds limit) {
  const Cut cut("reduce", tensor, slices, size(), copies_->device());
  check_reduced(tensor);
  if (size() == 1) return;
  const Wait wait = begin(cut, limit);
  const at::Tensor host = host_room_for(tensor);
  copies_->begin(host, tensor);
  copies_->wait(wait);
  host_.reduce(host, slices, wait.deadline.left());
  const Segment own = cut.owned_by(rank());
  copies_->begin(elements_of(tensor, own), elements_of(host, own));
  copies_->wait(wait);
}

void StagedLink::gather(const at::Tensor& tensor, Slices slices, Seconds limit) {
  const Cut cut("gather", tensor, slices, size(), copies_->device());
  if (size() == 1) return;
  const Wait wait = begin(cut, limit);
  const at::Tensor host = host_room_for(tensor);
  const Segment own = cut.owned_by(rank());
  copies_->begin(elements_of(host, own), elements_of(tensor, own));
  copies_->wait(wait);
  host_.gather(host, slices, wait.deadline.left());
  for (const Segment others : {Segment{0, own.begin}, Segment{own.end, tensor.numel()}}) {
    copies_->begin(elements_of(tensor, others), elements_of(host, others));
  }
  copies_->wait(wait);
}

Wait StagedLink::begin(const Cut& cut, Seconds limit) {
  return {.guard = guard_,
          .call = {.what = cut.text(), .group = name_.text, .number = begun_++},
          .limit = limit};
}

// The copies of the last call are over, so its room can be used again.
at::Tensor StagedLink::host_room_for(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  if (!room_.defined() || room_.numel() < bytes) room_ = copies_->host_room({bytes}, at::kByte);
  return room_.narrow(0, 0, bytes).view(tensor.scalar_type()).view(tensor.sizes());
}

}  // namespace daso
