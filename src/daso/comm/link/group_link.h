// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/communicator.h"
#include "daso/comm/node_link.h"

namespace daso {

// The ranks of a node over a group of the backend, for where they cannot share memory.
class GroupLink final : public NodeLink {
 public:
  explicit GroupLink(Communicator& group) : group_(group) {}  // borrowed

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string kind() const override { return "messages"; }
  bool shares_memory() const override { return false; }
  void reduce(const at::Tensor& tensor, Slices slices, Seconds limit) override;
  void gather(const at::Tensor& tensor, Slices slices, Seconds limit) override;

 private:
  Communicator& group_;
};

}  // namespace daso
