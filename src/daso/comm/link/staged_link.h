// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daso/comm/link/device_copies.h"
#include "daso/comm/link/shared_link.h"
#include "daso/comm/node_link.h"

namespace daso {

// The ranks of a node whose tensors lie on devices, over a link of their hosts. Only what the other
// side needs is copied: a reduction takes all down and the own slice up, a gathering the own slice
// down and the others up.
class StagedLink final : public NodeLink {
 public:
  // The host's link is borrowed, and used by nobody else.
  StagedLink(NodeLink& host, std::unique_ptr<DeviceCopies> copies, LinkName name, Guard guard);

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::string kind() const override { return "pinned memory and " + host_.kind(); }
  bool shares_memory() const override { return host_.shares_memory(); }
  void reduce(const at::Tensor& tensor, Slices slices, Seconds limit) override;
  void gather(const at::Tensor& tensor, Slices slices, Seconds limit) override;

 private:
  Wait begin(const Cut& cut, Seconds limit);
  at::Tensor host_room_for(const at::Tensor& tensor);

  NodeLink& host_;
  const std::unique_ptr<DeviceCopies> copies_;
  const LinkName name_;
  const Guard guard_;
  std::int64_t begun_ = 0;
  at::Tensor room_;  // bytes of the host; kept between calls
};

}  // namespace daso
