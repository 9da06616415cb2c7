// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/buckets.h"

#include "daso/base/error.h"

namespace daso {

std::vector<Bucket> cut_buckets(const std::vector<FlatSpan>& spans, std::int64_t cap_elements) {
  require(cap_elements >= 1, "a bucket must have room for at least 1 element, got {}",
          cap_elements);
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::int64_t end = spans[i].offset + spans[i].elements;
    if (!buckets.empty() && end - buckets.back().begin <= cap_elements) {
      ++buckets.back().spans;
      buckets.back().end = end;
    } else {
      buckets.push_back({i, 1, spans[i].offset, end});
    }
  }
  return buckets;
}

}  // namespace daso
