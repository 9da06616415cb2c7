// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Between adamw_kernel.cpp, which checks, and the versions of its loop per instruction set; the
// rules of base/simd/scalar.h hold.
namespace daso::kernels {

struct AdamwUpdate {
  const float* gradients;
  float* parameters;
  float* first;
  float* second;
  std::size_t elements;
  float keep;          // 1 - learning_rate * weight_decay
  float first_keep;    // beta1
  float first_take;    // 1 - beta1
  float second_keep;   // beta2
  float second_take;   // 1 - beta2
  float second_scale;  // 1 / sqrt(1 - beta2^number)
  float rate;          // learning_rate / (1 - beta1^number)
  float epsilon;
};

// Each does as many whole vectors as there are and says how many elements that were.
std::size_t adamw_scalar(const AdamwUpdate& update);
std::size_t adamw_avx2(const AdamwUpdate& update);
std::size_t adamw_avx512(const AdamwUpdate& update);

template <typename V>
std::size_t adamw_loop(const AdamwUpdate& u) {
  using Floats = typename V::Floats;
  const Floats keep = V::all(u.keep);
  const Floats first_keep = V::all(u.first_keep);
  const Floats first_take = V::all(u.first_take);
  const Floats second_keep = V::all(u.second_keep);
  const Floats second_take = V::all(u.second_take);
  const Floats second_scale = V::all(u.second_scale);
  const Floats rate = V::all(u.rate);
  const Floats epsilon = V::all(u.epsilon);
  const std::size_t whole = u.elements / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) {
    const Floats g = V::load(u.gradients + i);
    const Floats first =
        V::add(V::multiply(first_keep, V::load(u.first + i)), V::multiply(first_take, g));
    const Floats second = V::add(V::multiply(second_keep, V::load(u.second + i)),
                                 V::multiply(V::multiply(second_take, g), g));
    V::store(u.first + i, first);
    V::store(u.second + i, second);
    const Floats root = V::add(V::multiply(V::square_root(second), second_scale), epsilon);
    const Floats kept = V::multiply(keep, V::load(u.parameters + i));
    V::store(u.parameters + i, V::subtract(kept, V::divide(V::multiply(rate, first), root)));
  }
  return whole;
}

}  // namespace daso::kernels
