// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daso/kernels/moments_loop.h"

// Between adamw_kernel.cpp, which checks, and the versions of its loop per instruction set; the
// rules of base/simd/scalar.h hold.
namespace daso::kernels {

struct AdamwUpdate {
  const float* gradients;
  float* parameters;
  float* first;
  float* second;
  std::size_t elements;
  MomentFactors factors;
  float keep;  // 1 - learning_rate * weight_decay
  float rate;  // learning_rate / (1 - beta1^number)
};

// Each does as many whole vectors as there are and says how many elements that were.
std::size_t adamw_scalar(const AdamwUpdate& update);
std::size_t adamw_avx2(const AdamwUpdate& update);
std::size_t adamw_avx512(const AdamwUpdate& update);

template <typename V>
std::size_t adamw_loop(const AdamwUpdate& u) {
  using Floats = typename V::Floats;
  const MomentFactors factors = u.factors;  // of its own: what is stored cannot change it
  const Floats keep = V::all(u.keep);
  const Floats rate = V::all(u.rate);
  const std::size_t whole = u.elements / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) {
    const Moments<V> next = next_moments<V>(u.gradients + i, u.first + i, u.second + i, factors);
    const Floats root = root_of<V>(next.second, factors);
    const Floats kept = V::multiply(keep, V::load(u.parameters + i));
    V::store(u.parameters + i, V::subtract(kept, V::divide(V::multiply(rate, next.first), root)));
  }
  return whole;
}

}  // namespace daso::kernels
