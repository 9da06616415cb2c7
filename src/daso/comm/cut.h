// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include "daso/comm/communicator.h"
#include "daso/comm/node_link.h"

namespace daso {

// A tensor cut into slices among the ranks of a node, counted in elements.
class Cut {
 public:
  // Throws ConfigError where a NodeLink does not take the tensor or the slices.
  Cut(const char* operation, const at::Tensor& tensor, Slices slices, int ranks);

  std::int64_t rows() const { return rows_; }
  int slices() const { return slices_.slices; }
  int owner(int slice) const { return slices_.first + slice; }
  bool owns(int rank) const { return rank >= slices_.first && rank < slices_.first + slices(); }
  Segment of(int slice) const;
  std::int64_t longest() const { return of(0).length(); }

 private:
  const Slices slices_;
  std::int64_t rows_;
  std::int64_t row_;  // elements of one
};

}  // namespace daso
