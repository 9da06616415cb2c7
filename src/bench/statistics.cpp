// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "daso/base/error.h"

namespace daso::bench {

double median(std::vector<double> values) {
  DASO_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

namespace {

double reduce(Communicator& ranks, double own, Reduce how, Seconds limit) {
  return ranks.all_reduce(at::full({1}, own, at::kDouble), how).wait(limit).item<double>();
}

}  // namespace

OverRanks over_ranks(Communicator& ranks, double own, Seconds limit) {
  return {.smallest = reduce(ranks, own, Reduce::kMin, limit),
          .mean = reduce(ranks, own, Reduce::kMean, limit),
          .largest = reduce(ranks, own, Reduce::kMax, limit)};
}

double sum_of(Communicator& ranks, double own, Seconds limit) {
  return reduce(ranks, own, Reduce::kSum, limit);
}

bool all_agree(Communicator& ranks, bool own, Seconds limit) {
  return reduce(ranks, own ? 1 : 0, Reduce::kMin, limit) == 1;
}

}  // namespace daso::bench
