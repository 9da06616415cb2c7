// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Between sgd_kernel.cpp, which checks, and the versions of its loop per instruction set; the rules
// of base/simd/scalar.h hold.
namespace daso::kernels {

struct SgdUpdate {
  const float* gradients;
  float* parameters;
  float* velocity;  // null: no momentum
  std::size_t elements;
  float learning_rate;
  float momentum;
  float weight_decay;
  bool nesterov;
  bool first;
};

// Each does as many whole vectors as there are and says how many elements that were.
std::size_t sgd_scalar(const SgdUpdate& update);
std::size_t sgd_avx2(const SgdUpdate& update);
std::size_t sgd_avx512(const SgdUpdate& update);

enum class Velocity { kNone, kFirst, kLater };

template <typename V, Velocity kVelocity>
typename V::Floats next_velocity(const float* velocity, typename V::Floats d,
                                 typename V::Floats momentum) {
  if constexpr (kVelocity == Velocity::kFirst) return d;
  return V::add(V::multiply(momentum, V::load(velocity)), d);
}

template <typename V, Velocity kVelocity, bool kNesterov>
std::size_t sgd_vectors(const SgdUpdate& u) {
  using Floats = typename V::Floats;
  const Floats learning_rate = V::all(u.learning_rate);
  const Floats momentum = V::all(u.momentum);
  const Floats weight_decay = V::all(u.weight_decay);
  const std::size_t whole = u.elements / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) {
    const Floats x = V::load(u.parameters + i);
    const Floats d = V::add(V::load(u.gradients + i), V::multiply(weight_decay, x));
    if constexpr (kVelocity == Velocity::kNone) {
      V::store(u.parameters + i, V::subtract(x, V::multiply(learning_rate, d)));
    } else {
      const Floats velocity = next_velocity<V, kVelocity>(u.velocity + i, d, momentum);
      V::store(u.velocity + i, velocity);
      const Floats change = kNesterov ? V::add(d, V::multiply(momentum, velocity)) : velocity;
      V::store(u.parameters + i, V::subtract(x, V::multiply(learning_rate, change)));
    }
  }
  return whole;
}

template <typename V>
std::size_t sgd_loop(const SgdUpdate& u) {
  if (u.velocity == nullptr) return sgd_vectors<V, Velocity::kNone, false>(u);
  if (u.first && u.nesterov) return sgd_vectors<V, Velocity::kFirst, true>(u);
  if (u.first) return sgd_vectors<V, Velocity::kFirst, false>(u);
  if (u.nesterov) return sgd_vectors<V, Velocity::kLater, true>(u);
  return sgd_vectors<V, Velocity::kLater, false>(u);
}

}  // namespace daso::kernels
