// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/host_device.h"

// What follows from norms, in double and rounded to fp32 once: the rates of LARS and LAMB, and the
// factor that shortens gradients. The CPU's loops and the GPU's kernels compute it, so that nobody
// waits for a norm. V tells the users apart, as simd/scalar.h explains.
namespace daso::kernels {

// The rate times the ratio of two norms, kept within fp32. Where one of them is 0, as those of
// tensors that begin with zeros, there is nothing to compare: the rate itself.
template <typename V>
DASO_HOST_DEVICE float rate_by_norms(double rate, double numerator, double denominator) {
  // An infinite rate would turn elements without a gradient into NaN.
  constexpr double kLargest = 0x1.fffffep127;
  const double ratio = numerator > 0 && denominator > 0 ? numerator / denominator : 1;
  const double product = rate * ratio;
  return static_cast<float>(kLargest < product ? kLargest : product);
}

// `size` and `slope` are the norms of parameters and gradients. Without a gradient the rate stays
// as it is, although decay alone would give a ratio.
template <typename V>
DASO_HOST_DEVICE float lars_rate(double learning_rate, double trust, double weight_decay,
                                 double size, double slope) {
  const double decay = weight_decay * size;
  return rate_by_norms<V>(learning_rate, slope > 0 ? trust * size : 0, slope + decay);
}

// 1 where the norm is at most `largest`, or not finite: scaling would hide where that comes from.
template <typename V>
DASO_HOST_DEVICE float clip_factor(double norm, double largest) {
  constexpr double kMost = 0x1.fffffffffffffp1023;
  const double factor = largest / (norm + 1e-6);
  return norm <= kMost && factor < 1 ? static_cast<float>(factor) : 1;
}

// What AdamW keeps of a parameter.
template <typename V>
DASO_HOST_DEVICE float kept_by_decay(double learning_rate, double weight_decay) {
  const double decay = learning_rate * weight_decay;
  return static_cast<float>(1 - decay);
}

}  // namespace daso::kernels
