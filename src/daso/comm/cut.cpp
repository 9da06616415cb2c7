// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/cut.h"

#include <fmt/ranges.h>

#include "daso/base/error.h"

namespace daso {

Cut::Cut(const char* operation, const at::Tensor& tensor, Slices slices, int ranks)
    : slices_(slices) {
  require(tensor.defined(), "{} inside a node: the tensor is undefined", operation);
  check_memory(fmt::format("{} inside a node", operation), tensor);
  require(slices.slices >= 1 && slices.first >= 0 && slices.first + slices.slices <= ranks,
          "{} inside a node: {} slices from local rank {} on do not fit a node of {} ranks",
          operation, slices.slices, slices.first, ranks);
  rows_ = tensor.dim() == 0 ? 1 : tensor.size(0);
  row_ = rows_ == 0 ? 0 : tensor.numel() / rows_;
}

Segment Cut::of(int slice) const {
  const Segment rows = segment_of(rows_, slices(), slice);
  return {rows.begin * row_, rows.end * row_};
}

}  // namespace daso
