// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Between lars_kernel.cpp, which checks, and the versions of its loop per instruction set; the
// rules of base/simd/scalar.h hold.
namespace daso::kernels {

struct LarsUpdate {
  const float* gradients;
  float* parameters;
  float* velocity;
  std::size_t elements;
  float rate;
  float momentum;
  float weight_decay;
};

// Each does as many whole vectors as there are and says how many elements that were.
std::size_t lars_scalar(const LarsUpdate& update);
std::size_t lars_avx2(const LarsUpdate& update);
std::size_t lars_avx512(const LarsUpdate& update);

template <typename V>
std::size_t lars_loop(const LarsUpdate& u) {
  using Floats = typename V::Floats;
  const Floats rate = V::all(u.rate);
  const Floats momentum = V::all(u.momentum);
  const Floats weight_decay = V::all(u.weight_decay);
  const std::size_t whole = u.elements / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) {
    const Floats x = V::load(u.parameters + i);
    const Floats d = V::add(V::load(u.gradients + i), V::multiply(weight_decay, x));
    const Floats velocity =
        V::add(V::multiply(momentum, V::load(u.velocity + i)), V::multiply(rate, d));
    V::store(u.velocity + i, velocity);
    V::store(u.parameters + i, V::subtract(x, velocity));
  }
  return whole;
}

}  // namespace daso::kernels
