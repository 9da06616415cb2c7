// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/clip.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>

#include "daso/base/error.h"
#include "daso/model/large_tensor.h"

namespace daso {
namespace {

// So many sums run side by side; the compiler makes vectors of them, of any length that divides it.
constexpr std::size_t kSums = 16;

// The square of a float is exact as a double, so only the additions round.
double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }

}  // namespace

double norm_of(std::span<const float> values) {
  std::array<double, kSums> sums{};
  const std::size_t whole = values.size() / kSums * kSums;
  const float* const data = values.data();
  for (std::size_t i = 0; i < whole; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += square(data[i + j]);
  }
  for (std::size_t i = whole; i < values.size(); ++i) sums[i - whole] += square(data[i]);
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return std::sqrt(sums[0]);
}

double clip_by_norm(FlatModel& model, double largest) {
  require(std::isfinite(largest) && largest > 0,
          "the largest norm of the gradients must be above 0, got {}", largest);
  const double norm = norm_of(floats(model.gradients()));
  const double scale = largest / (norm + 1e-6);
  if (std::isfinite(norm) && scale < 1) model.gradients().mul_(scale);
  return norm;
}

}  // namespace daso
