// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/spread.h"

#include <ATen/ATen.h>

namespace daso {

Pending Spread::operator()(const at::Tensor& segment, const at::Tensor& output) {
  const std::int64_t elements = segment.numel() * group_.size();
  if (!copies_.defined() || copies_.numel() < elements) {
    copies_ = at::empty({elements}, segment.options());
  }
  const at::Tensor copies = copies_.narrow(0, 0, elements).view(output.sizes());
  for (int rank = 0; rank < group_.size(); ++rank) {
    copies.narrow(0, rank * segment.size(0), segment.size(0)).copy_(segment);
  }
  return group_.all_to_all(copies, output);
}

}  // namespace daso
