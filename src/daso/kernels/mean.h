// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/kernels/kernels.h"

// Means in fp32 whose bits do not depend on how the values are cut, nor on the processor: products,
// sums and quotients are rounded one by one, terms are added from left to right. Of any number of
// elements; `mean` may lie where one of the terms does. weighted_mean() is for the CPU's tables.
namespace daso {

// One term of a mean.
struct Part {
  std::span<const float> values;
  float weight = 0;
};

// Over nodes, for agreements and blocking averages:
//   mean = weight_0 * values_0 + weight_1 * values_1 + ...
//   mean = mean + residual, residual = 0        unless it is empty: there is none
// False if an element of the mean is not finite.
bool weighted_mean(std::span<const Part> parts, std::span<float> residual, std::span<float> mean,
                   const Kernels& kernels = cpu_kernels());

// Over the ranks of a node, which count alike:
//   mean = (values_0 + values_1 + ...) / number of them
// Each has as many values as the mean.
void plain_mean(std::span<const float* const> values, std::span<float> mean,
                const Kernels& kernels = cpu_kernels());

}  // namespace daso
