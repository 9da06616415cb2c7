// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/norm.h"

#include <cmath>

namespace daso {
namespace {

// The square of a float is exact as a double, so only the additions round.
double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }

}  // namespace

void SquareSum::add(std::span<const float> values) {
  std::array<double, kSums> sums = sums_;  // of its own, so that it can stay in registers
  const std::size_t whole = values.size() / kSums * kSums;
  const float* const data = values.data();
  for (std::size_t i = 0; i < whole; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += square(data[i + j]);
  }
  for (std::size_t i = whole; i < values.size(); ++i) sums[i - whole] += square(data[i]);
  sums_ = sums;
}

double SquareSum::total() const {
  std::array<double, kSums> sums = sums_;
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

double norm_of(std::span<const float> values) {
  SquareSum sum;
  sum.add(values);
  return std::sqrt(sum.total());
}

}  // namespace daso
