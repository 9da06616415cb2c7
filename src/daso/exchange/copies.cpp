// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/copies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "daso/kernels/digest.h"

namespace daso {

at::Tensor digests_by_tensor(const std::vector<FlatSpan>& spans, std::span<const float> values,
                             std::int64_t begin) {
  const std::int64_t end = begin + static_cast<std::int64_t>(values.size());
  at::Tensor digests = at::zeros({static_cast<std::int64_t>(spans.size())}, at::kLong);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::int64_t from = std::max(spans[i].offset, begin);
    const std::int64_t to = std::min(spans[i].offset + spans[i].elements, end);
    if (from >= to) continue;
    const auto part =
        values.subspan(static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - from));
    digests[static_cast<std::int64_t>(i)] = std::bit_cast<std::int64_t>(digest_of(part));
  }
  return digests;
}

std::optional<CopyDifference> first_difference(const std::vector<FlatSpan>& spans,
                                               const at::Tensor& digests) {
  const auto all = digests.accessor<std::int64_t, 2>();
  for (std::int64_t tensor = 0; tensor < digests.size(1); ++tensor) {
    for (std::int64_t copy = 1; copy < digests.size(0); ++copy) {
      if (all[copy][tensor] != all[0][tensor]) {
        return CopyDifference{copy, spans[static_cast<std::size_t>(tensor)].name};
      }
    }
  }
  return std::nullopt;
}

}  // namespace daso
