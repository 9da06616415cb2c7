// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/kernels.h"

// The loops of update.h, over a vector type V of simd/: whole vectors, then what is left element by
// element.
namespace daso::kernels {

// Calls act(W(), i) with W = V for whole vectors from element i on, then with its vector of one.
// The work is captured by value: of a reference the compiler must believe that vectors may be
// stored over it.
template <typename V, typename Act>
[[gnu::always_inline]] inline void for_each_vector(std::size_t elements, const Act& act) {
  const std::size_t whole = elements / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) act(V(), i);
  if constexpr (V::kLanes > 1) {
    for (std::size_t i = whole; i < elements; ++i) act(typename V::One(), i);
  }
}

enum class Velocity { kNone, kFirst, kLater };

template <typename V, Velocity kVelocity, bool kNesterov>
void sgd_vectors(const SgdUpdate& u) {
  for_each_vector<V>(
      u.elements, [u](auto vector, std::size_t i) __attribute__((always_inline)) {
        using W = decltype(vector);
        using Floats = typename W::Floats;
        const Floats learning_rate = W::all(u.learning_rate);
        const Floats momentum = W::all(u.momentum);
        const Floats x = W::load(u.parameters + i);
        const Floats d = W::add(W::load(u.gradients + i), W::multiply(W::all(u.weight_decay), x));
        Floats change = d;
        if constexpr (kVelocity != Velocity::kNone) {
          Floats velocity = d;
          if constexpr (kVelocity == Velocity::kLater) {
            velocity = W::add(W::multiply(momentum, W::load(u.velocity + i)), d);
          }
          W::store(u.velocity + i, velocity);
          change = kNesterov ? W::add(d, W::multiply(momentum, velocity)) : velocity;
        }
        W::store(u.parameters + i, W::subtract(x, W::multiply(learning_rate, change)));
      });
}

template <typename V>
void sgd_loop(const SgdUpdate& u) {
  if (u.velocity == nullptr) return sgd_vectors<V, Velocity::kNone, false>(u);
  if (u.first && u.nesterov) return sgd_vectors<V, Velocity::kFirst, true>(u);
  if (u.first) return sgd_vectors<V, Velocity::kFirst, false>(u);
  if (u.nesterov) return sgd_vectors<V, Velocity::kLater, true>(u);
  return sgd_vectors<V, Velocity::kLater, false>(u);
}

template <typename V>
void lars_loop(const LarsUpdate& u) {
  for_each_vector<V>(
      u.elements, [u](auto vector, std::size_t i) __attribute__((always_inline)) {
        using W = decltype(vector);
        using Floats = typename W::Floats;
        const Floats x = W::load(u.parameters + i);
        const Floats d = W::add(W::load(u.gradients + i), W::multiply(W::all(u.weight_decay), x));
        const Floats velocity = W::add(W::multiply(W::all(u.momentum), W::load(u.velocity + i)),
                                       W::multiply(W::all(u.rate), d));
        W::store(u.velocity + i, velocity);
        W::store(u.parameters + i, W::subtract(x, velocity));
      });
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
[[gnu::always_inline]] inline Moments<V> next_moments(const float* gradients, float* first,
                                                      float* second, const MomentFactors& f) {
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

template <typename V>
void adamw_loop(const AdamwUpdate& u) {
  for_each_vector<V>(
      u.elements, [u](auto vector, std::size_t i) __attribute__((always_inline)) {
        using W = decltype(vector);
        using Floats = typename W::Floats;
        const Moments<W> next =
            next_moments<W>(u.gradients + i, u.first + i, u.second + i, u.factors);
        const Floats root = root_of<W>(next.second, u.factors);
        const Floats kept = W::multiply(W::all(u.keep), W::load(u.parameters + i));
        const Floats change = W::divide(W::multiply(W::all(u.rate), next.first), root);
        W::store(u.parameters + i, W::subtract(kept, change));
      });
}

// What a step would change at a rate of 1; both passes come to the same bits.
template <typename V>
typename V::Floats lamb_change(const Moments<V>& moments, typename V::Floats x,
                               const LambFactors& f) {
  using Floats = typename V::Floats;
  const Floats root = root_of<V>(moments.second, f.moments);
  const Floats adam = V::divide(V::multiply(V::all(f.first_scale), moments.first), root);
  return V::add(adam, V::multiply(V::all(f.weight_decay), x));
}

template <typename V>
void lamb_moments_loop(const LambMoments& m) {
  for_each_vector<V>(
      m.elements, [m](auto vector, std::size_t i) __attribute__((always_inline)) {
        using W = decltype(vector);
        const Moments<W> next =
            next_moments<W>(m.gradients + i, m.first + i, m.second + i, m.factors.moments);
        W::store(m.change + i, lamb_change<W>(next, W::load(m.parameters + i), m.factors));
      });
}

template <typename V>
void lamb_update_loop(const LambUpdate& u) {
  for_each_vector<V>(
      u.elements, [u](auto vector, std::size_t i) __attribute__((always_inline)) {
        using W = decltype(vector);
        using Floats = typename W::Floats;
        const Floats x = W::load(u.parameters + i);
        const Moments<W> moments{W::load(u.first + i), W::load(u.second + i)};
        const Floats change = lamb_change<W>(moments, x, u.factors);
        W::store(u.parameters + i, W::subtract(x, W::multiply(W::all(u.rate), change)));
      });
}

template <typename V>
void ema_loop(const EmaUpdate& u) {
  for_each_vector<V>(
      u.elements, [u](auto vector, std::size_t i) __attribute__((always_inline)) {
        using W = decltype(vector);
        using Floats = typename W::Floats;
        const Floats average = W::load(u.average + i);
        const Floats difference = W::subtract(W::load(u.values + i), average);
        W::store(u.average + i, W::add(average, W::multiply(W::all(u.take), difference)));
      });
}

}  // namespace daso::kernels
