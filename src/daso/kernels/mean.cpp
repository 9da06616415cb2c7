// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/mean.h"

#include <vector>

#include "daso/base/error.h"

namespace daso {

bool weighted_mean(std::span<const Part> parts, std::span<float> residual, std::span<float> mean,
                   const Kernels& kernels) {
  DASO_ASSERT(kernels.host && !parts.empty());
  DASO_ASSERT(residual.empty() || residual.size() == mean.size());
  std::vector<kernels::MeanTerm> terms;
  terms.reserve(parts.size());
  for (const Part& part : parts) {
    DASO_ASSERT(part.values.size() == mean.size());
    terms.push_back({part.values.data(), part.weight});
  }
  std::uint32_t overflow = 0;
  kernels.mean({.terms = terms.data(),
                .number_of_terms = terms.size(),
                .divisor = 1,
                .residual = residual.empty() ? nullptr : residual.data(),
                .mean = mean.data(),
                .elements = mean.size(),
                .overflow = &overflow});
  return overflow == 0;
}

// A weight of 1 changes no bit.
void plain_mean(std::span<const float* const> values, std::span<float> mean,
                const Kernels& kernels) {
  DASO_ASSERT(!values.empty());
  std::vector<kernels::MeanTerm> terms;
  terms.reserve(values.size());
  for (const float* one : values) terms.push_back({one, 1});
  kernels.mean({.terms = terms.data(),
                .number_of_terms = terms.size(),
                .divisor = static_cast<float>(terms.size()),
                .residual = nullptr,
                .mean = mean.data(),
                .elements = mean.size(),
                .overflow = nullptr});
}

}  // namespace daso
