// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daso/kernels/moments_loop.h"

// Between lamb_kernel.cpp, which checks, and the versions of its loops per instruction set; the
// rules of base/simd/scalar.h hold.
namespace daso::kernels {

struct LambFactors {
  MomentFactors moments;
  float first_scale;  // 1 / (1 - beta1^number)
  float weight_decay;
};

struct LambMoments {
  const float* gradients;
  const float* parameters;
  float* first;
  float* second;
  float* change;
  std::size_t elements;
  LambFactors factors;
};

struct LambUpdate {
  float* parameters;
  const float* first;
  const float* second;
  std::size_t elements;
  LambFactors factors;
  float rate;
};

// Each does as many whole vectors as there are and says how many elements that were.
std::size_t lamb_moments_scalar(const LambMoments& moments);
std::size_t lamb_moments_avx2(const LambMoments& moments);
std::size_t lamb_moments_avx512(const LambMoments& moments);
std::size_t lamb_update_scalar(const LambUpdate& update);
std::size_t lamb_update_avx2(const LambUpdate& update);
std::size_t lamb_update_avx512(const LambUpdate& update);

// What a step would change at a rate of 1; both loops come to the same bits.
template <typename V>
typename V::Floats lamb_change(const Moments<V>& moments, typename V::Floats x,
                               const LambFactors& f) {
  using Floats = typename V::Floats;
  const Floats root = root_of<V>(moments.second, f.moments);
  const Floats adam = V::divide(V::multiply(V::all(f.first_scale), moments.first), root);
  return V::add(adam, V::multiply(V::all(f.weight_decay), x));
}

template <typename V>
std::size_t lamb_moments_loop(const LambMoments& m) {
  const LambFactors factors = m.factors;  // of its own: what is stored cannot change it
  const std::size_t whole = m.elements / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) {
    const Moments<V> next =
        next_moments<V>(m.gradients + i, m.first + i, m.second + i, factors.moments);
    V::store(m.change + i, lamb_change<V>(next, V::load(m.parameters + i), factors));
  }
  return whole;
}

template <typename V>
std::size_t lamb_update_loop(const LambUpdate& u) {
  using Floats = typename V::Floats;
  const LambFactors factors = u.factors;
  const Floats rate = V::all(u.rate);
  const std::size_t whole = u.elements / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) {
    const Floats x = V::load(u.parameters + i);
    const Moments<V> moments{V::load(u.first + i), V::load(u.second + i)};
    const Floats change = lamb_change<V>(moments, x, factors);
    V::store(u.parameters + i, V::subtract(x, V::multiply(rate, change)));
  }
  return whole;
}

}  // namespace daso::kernels
