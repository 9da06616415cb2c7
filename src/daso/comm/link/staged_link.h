// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daso/comm/link/polling.h"
#include "daso/comm/link/shared_link.h"
#include "daso/comm/node_link.h"
#include "daso/tensor/lane.h"

namespace daso {

// The ranks of a node whose tensors lie on devices, over a link of their hosts. Only what the other
// side needs is copied: a reduction takes all down and the own slice up, a gathering the own slice
// down and the others up. The copies are made in a lane, behind what the calling thread's current
// stream has been given.
class StagedLink final : public NodeLink {
 public:
  // For tensors of this device. The host's link is borrowed, and used by nobody else meanwhile.
  StagedLink(NodeLink& host, at::Device device, std::shared_ptr<Lane> lane, LinkName name,
             Guard guard);

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::string kind() const override { return "pinned memory and " + host_.kind(); }
  bool shares_memory() const override { return host_.shares_memory(); }
  void reduce(const at::Tensor& tensor, Slices slices, Seconds limit) override;
  void gather(const at::Tensor& tensor, Slices slices, Seconds limit) override;

 private:
  Wait begin(const Cut& cut, Seconds limit);
  void finish_copies(const Wait& wait);
  at::Tensor host_room_for(const at::Tensor& tensor);

  NodeLink& host_;
  const at::Device device_;
  const std::shared_ptr<Lane> lane_;
  const LinkName name_;
  const Guard guard_;
  std::int64_t begun_ = 0;
  at::Tensor room_;  // bytes of the host; kept between calls
};

}  // namespace daso
