// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/host_device.h"
#include "daso/kernels/kernels.h"

// The steps of update.h on one vector from element i on, over a vector type V: of simd/, or of a
// GPU's thread. The one definition of their arithmetic.
namespace daso::kernels {

enum class Velocity { kNone, kFirst, kLater };

struct SgdRun {
  const float* gradients;
  float* parameters;
  float* velocity;
  float learning_rate;
  float momentum;
  float weight_decay;
};

template <typename V, Velocity kVelocity, bool kNesterov>
DASO_ALWAYS_INLINE void sgd_at(const SgdRun& r, std::size_t i) {
  using Floats = typename V::Floats;
  const Floats momentum = V::all(r.momentum);
  const Floats x = V::load(r.parameters + i);
  const Floats d = V::add(V::load(r.gradients + i), V::multiply(V::all(r.weight_decay), x));
  Floats change = d;
  if constexpr (kVelocity != Velocity::kNone) {
    Floats velocity = d;
    if constexpr (kVelocity == Velocity::kLater) {
      velocity = V::add(V::multiply(momentum, V::load(r.velocity + i)), d);
    }
    V::store(r.velocity + i, velocity);
    change = kNesterov ? V::add(d, V::multiply(momentum, velocity)) : velocity;
  }
  V::store(r.parameters + i, V::subtract(x, V::multiply(V::all(r.learning_rate), change)));
}

struct LarsRun {
  const float* gradients;
  float* parameters;
  float* velocity;
  float rate;
  float momentum;
  float weight_decay;
};

template <typename V>
DASO_ALWAYS_INLINE void lars_at(const LarsRun& r, std::size_t i) {
  using Floats = typename V::Floats;
  const Floats x = V::load(r.parameters + i);
  const Floats d = V::add(V::load(r.gradients + i), V::multiply(V::all(r.weight_decay), x));
  const Floats velocity = V::add(V::multiply(V::all(r.momentum), V::load(r.velocity + i)),
                                 V::multiply(V::all(r.rate), d));
  V::store(r.velocity + i, velocity);
  V::store(r.parameters + i, V::subtract(x, velocity));
}

template <typename V>
struct Moments {
  typename V::Floats first;
  typename V::Floats second;
};

// Takes one vector of gradients into both moments, which are stored:
//   first  = beta1 * first + (1 - beta1) * gradients
//   second = beta2 * second + (1 - beta2) * gradients * gradients
template <typename V>
DASO_ALWAYS_INLINE Moments<V> next_moments(const float* gradients, float* first, float* second,
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
DASO_HOST_DEVICE typename V::Floats root_of(typename V::Floats second, const MomentFactors& f) {
  return V::add(V::multiply(V::square_root(second), V::all(f.second_scale)), V::all(f.epsilon));
}

struct AdamwRun {
  const float* gradients;
  float* parameters;
  float* first;
  float* second;
  MomentFactors factors;
  float keep;  // 1 - learning_rate * weight_decay
  float rate;
};

template <typename V>
DASO_ALWAYS_INLINE void adamw_at(const AdamwRun& r, std::size_t i) {
  using Floats = typename V::Floats;
  const Floats x = V::load(r.parameters + i);
  const Moments<V> next = next_moments<V>(r.gradients + i, r.first + i, r.second + i, r.factors);
  const Floats root = root_of<V>(next.second, r.factors);
  const Floats kept = V::multiply(V::all(r.keep), x);
  const Floats change = V::divide(V::multiply(V::all(r.rate), next.first), root);
  V::store(r.parameters + i, V::subtract(kept, change));
}

struct LambRun {
  const float* gradients;
  float* parameters;
  float* first;
  float* second;
  MomentFactors factors;
  float first_scale;
  float weight_decay;
  float rate;  // of the second pass
};

// What a step would change at a rate of 1; both passes come to the same bits.
template <typename V>
DASO_HOST_DEVICE typename V::Floats lamb_change(const Moments<V>& moments, typename V::Floats x,
                                                const LambRun& r) {
  using Floats = typename V::Floats;
  const Floats root = root_of<V>(moments.second, r.factors);
  const Floats adam = V::divide(V::multiply(V::all(r.first_scale), moments.first), root);
  return V::add(adam, V::multiply(V::all(r.weight_decay), x));
}

// The first pass, but for the norms of x and of this change.
template <typename V>
DASO_ALWAYS_INLINE typename V::Floats lamb_moments_at(const LambRun& r, typename V::Floats x,
                                                      std::size_t i) {
  const Moments<V> next = next_moments<V>(r.gradients + i, r.first + i, r.second + i, r.factors);
  return lamb_change<V>(next, x, r);
}

template <typename V>
DASO_ALWAYS_INLINE void lamb_at(const LambRun& r, std::size_t i) {
  using Floats = typename V::Floats;
  const Floats x = V::load(r.parameters + i);
  const Moments<V> moments{V::load(r.first + i), V::load(r.second + i)};
  const Floats change = lamb_change<V>(moments, x, r);
  V::store(r.parameters + i, V::subtract(x, V::multiply(V::all(r.rate), change)));
}

template <typename V>
DASO_ALWAYS_INLINE void ema_at(const EmaUpdate& u, std::size_t i) {
  using Floats = typename V::Floats;
  const Floats average = V::load(u.average + i);
  const Floats difference = V::subtract(V::load(u.values + i), average);
  V::store(u.average + i, V::add(average, V::multiply(V::all(u.take), difference)));
}

}  // namespace daso::kernels
