// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <string>

#include "daso/comm/communicator.h"
#include "daso/comm/node_link.h"

namespace daso {

// A tensor cut into slices among the ranks of a node, counted in elements.
class Cut {
 public:
  // Throws ConfigError where a NodeLink for tensors of this device does not take the tensor or the
  // slices.
  Cut(const char* operation, const at::Tensor& tensor, Slices slices, int ranks,
      at::Device device = at::Device(at::kCPU));

  std::int64_t rows() const { return rows_; }
  int slices() const { return slices_.slices; }
  int owner(int slice) const { return slices_.first + slice; }
  bool owns(int rank) const { return rank >= slices_.first && rank < slices_.first + slices(); }
  Segment of(int slice) const;
  Segment owned_by(int rank) const { return owns(rank) ? of(rank - slices_.first) : Segment{}; }
  std::int64_t longest() const { return of(0).length(); }
  std::string text() const;  // the call, for messages

 private:
  const char* operation_;
  const Slices slices_;
  std::int64_t bytes_;
  std::int64_t rows_;
  std::int64_t row_;  // elements of one
};

// What such a call is named: reduce(4000 bytes in 1000 rows, 2 slices from local rank 0).
std::string text_of_cut(const char* operation, std::int64_t bytes, std::int64_t rows,
                        Slices slices);

// Throws ConfigError for a tensor that NodeLink::reduce does not take.
void check_reduced(const at::Tensor& tensor);

// Some elements of a contiguous tensor, counted as if it were flat.
at::Tensor elements_of(const at::Tensor& tensor, Segment part);

}  // namespace daso
