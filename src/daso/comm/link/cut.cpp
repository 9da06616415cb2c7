// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/cut.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"

namespace daso {

Cut::Cut(const char* operation, const at::Tensor& tensor, Slices slices, int ranks,
         at::Device device)
    : operation_(operation), slices_(slices) {
  require(tensor.defined(), "{} inside a node: the tensor is undefined", operation);
  require(tensor.device() == device,
          "{} inside a node: the tensor is on {}, and this link is for tensors on {}", operation,
          tensor.device().str(), device.str());
  check_memory(fmt::format("{} inside a node", operation), tensor);
  require(slices.slices >= 1 && slices.first >= 0 && slices.first + slices.slices <= ranks,
          "{} inside a node: {} slices from local rank {} on do not fit a node of {} ranks",
          operation, slices.slices, slices.first, ranks);
  bytes_ = static_cast<std::int64_t>(tensor.nbytes());
  rows_ = tensor.dim() == 0 ? 1 : tensor.size(0);
  row_ = rows_ == 0 ? 0 : tensor.numel() / rows_;
}

Segment Cut::of(int slice) const {
  const Segment rows = segment_of(rows_, slices(), slice);
  return {rows.begin * row_, rows.end * row_};
}

std::string Cut::text() const { return text_of_cut(operation_, bytes_, rows_, slices_); }

std::string text_of_cut(const char* operation, std::int64_t bytes, std::int64_t rows,
                        Slices slices) {
  return fmt::format("{}({} bytes in {} rows, {} slices from local rank {})", operation, bytes,
                     rows, slices.slices, slices.first);
}

void check_reduced(const at::Tensor& tensor) {
  require(tensor.scalar_type() == at::kFloat, "reduce inside a node is for float32, not {}",
          c10::toString(tensor.scalar_type()));
}

at::Tensor elements_of(const at::Tensor& tensor, Segment part) {
  return tensor.view({-1}).narrow(0, part.begin, part.length());
}

}  // namespace daso
