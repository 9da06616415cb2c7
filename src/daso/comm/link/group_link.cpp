// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/link/group_link.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/comm/link/cut.h"

namespace daso {

void GroupLink::reduce(const at::Tensor& tensor, Slices slices, Seconds limit) {
  const Cut cut("reduce", tensor, slices, size());
  check_reduced(tensor);
  if (size() > 1) group_.all_reduce(tensor, Reduce::kMean).wait(limit);
}

void GroupLink::gather(const at::Tensor& tensor, Slices slices, Seconds limit) {
  const Cut cut("gather", tensor, slices, size());
  if (size() == 1 || tensor.numel() == 0) return;
  const Deadline deadline(limit);
  // As bytes, since not every type travels.
  const at::Tensor bytes = tensor.view({cut.rows(), -1}).view(at::kChar);
  if (slices.slices == size()) {
    const Segment own = segment_of(cut.rows(), size(), rank());
    const at::Tensor piece = bytes.narrow(0, own.begin, own.length()).clone();
    group_.all_gather(piece, bytes).wait(deadline.left());
    return;
  }
  std::vector<Pending> pieces;
  for (int slice = 0; slice < slices.slices; ++slice) {
    const Segment piece = segment_of(cut.rows(), slices.slices, slice);
    pieces.push_back(
        group_.broadcast(bytes.narrow(0, piece.begin, piece.length()), cut.owner(slice)));
  }
  for (Pending& piece : pieces) std::move(piece).wait(deadline.left());
}

}  // namespace daso
