// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

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

// How probable it is that |t| is below sqrt(degrees) * tan(angle). Source: Abramowitz and Stegun,
// Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
double within(double angle, int degrees) {
  const bool odd = degrees % 2 == 1;
  const double cosine = std::cos(angle);
  double term = odd ? cosine : 1;
  double sum = 0;
  for (int power = odd ? 1 : 0; power <= degrees - 2; power += 2) {
    sum += term;
    term *= cosine * cosine * (power + 1) / (power + 2);
  }
  if (odd) return 2 / std::numbers::pi * (angle + std::sin(angle) * sum);
  return std::sin(angle) * sum;
}

double reduce(Communicator& ranks, double own, Reduce how, Seconds limit) {
  return ranks.all_reduce(at::full({1}, own, at::kDouble), how).wait(limit).item<double>();
}

}  // namespace

double student_t(double probability, int degrees) {
  DASO_ASSERT(probability >= 0.5 && probability < 1 && degrees >= 1);
  double low = 0;
  double high = std::numbers::pi / 2;
  for (int i = 0; i < std::numeric_limits<double>::digits; ++i) {
    const double middle = (low + high) / 2;
    (within(middle, degrees) < 2 * probability - 1 ? low : high) = middle;
  }
  return std::sqrt(degrees) * std::tan((low + high) / 2);
}

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
