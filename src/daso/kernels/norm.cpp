// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/norm.h"

#include <cmath>

#include "daso/base/error.h"
#include "daso/kernels/kernel_versions.h"
#include "daso/kernels/norm_loop.h"

namespace daso {
namespace {

using Sums = std::array<double, SquareSums::kSums>;

constexpr KernelVersions<kernels::Squares> kSquares = DASO_KERNEL_VERSIONS(squares);

// What does not fill a row.
void add_tail(std::span<const float> tail, Sums& sums) {
  DASO_ASSERT(tail.size() < sums.size());
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const double value = tail[i];
    sums[i] += value * value;
  }
}

double root_of_all(Sums sums) {
  for (std::size_t half = sums.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return std::sqrt(sums[0]);
}

}  // namespace

void SquareSums::add(std::span<const float> first, std::span<const float> second,
                     InstructionSet set) {
  DASO_ASSERT(second.empty() || second.size() == first.size());
  const kernels::Squares squares{.first = first.data(),
                                 .second = second.empty() ? nullptr : second.data(),
                                 .elements = first.size(),
                                 .first_sums = first_.data(),
                                 .second_sums = second_.data()};
  const std::size_t done = kSquares(squares, set);
  add_tail(first.subspan(done), first_);
  if (!second.empty()) add_tail(second.subspan(done), second_);
}

Norms SquareSums::norms() const { return {root_of_all(first_), root_of_all(second_)}; }

Norms norms_of(std::span<const float> first, std::span<const float> second, InstructionSet set) {
  DASO_ASSERT(first.size() == second.size());
  SquareSums sums;
  sums.add(first, second, set);
  return sums.norms();
}

double norm_of(std::span<const float> values, InstructionSet set) {
  SquareSums sums;
  sums.add(values, {}, set);
  return sums.norms().first;
}

}  // namespace daso
