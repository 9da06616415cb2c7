// SPDX-License-Identifier: Apache-2.0
#pragma once

// Adam's moments, running means of the gradients and of their squares, as the loops of AdamW and
// LAMB share them; the rules of base/simd/scalar.h hold.
namespace daso::kernels {

struct MomentFactors {
  float first_keep;    // beta1
  float first_take;    // 1 - beta1
  float second_keep;   // beta2
  float second_take;   // 1 - beta2
  float second_scale;  // 1 / sqrt(1 - beta2^number)
  float epsilon;
};

template <typename V>
struct Moments {
  typename V::Floats first;
  typename V::Floats second;
};

// Takes one vector of gradients into both moments, which are stored:
//   first  = beta1 * first + (1 - beta1) * gradients
//   second = beta2 * second + (1 - beta2) * gradients * gradients
template <typename V>
Moments<V> next_moments(const float* gradients, float* first, float* second,
                        const MomentFactors& f) {
  using Floats = typename V::Floats;
  const Floats g = V::load(gradients);
  const Floats next_first = V::add(V::multiply(V::all(f.first_keep), V::load(first)),
                                   V::multiply(V::all(f.first_take), g));
  const Floats next_second = V::add(V::multiply(V::all(f.second_keep), V::load(second)),
                                    V::multiply(V::multiply(V::all(f.second_take), g), g));
  V::store(first, next_first);
  V::store(second, next_second);
  return {next_first, next_second};
}

// sqrt(second) / sqrt(1 - beta2^number) + epsilon
template <typename V>
typename V::Floats root_of(typename V::Floats second, const MomentFactors& f) {
  return V::add(V::multiply(V::square_root(second), V::all(f.second_scale)), V::all(f.epsilon));
}

}  // namespace daso::kernels
