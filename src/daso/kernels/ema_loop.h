// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Between ema_kernel.cpp, which checks, and the versions of its loop per instruction set; the rules
// of base/simd/scalar.h hold.
namespace daso::kernels {

struct EmaUpdate {
  const float* values;
  float* average;
  std::size_t elements;
  float take;
};

// Each does as many whole vectors as there are and says how many elements that were.
std::size_t ema_scalar(const EmaUpdate& update);
std::size_t ema_avx2(const EmaUpdate& update);
std::size_t ema_avx512(const EmaUpdate& update);

template <typename V>
std::size_t ema_loop(const EmaUpdate& u) {
  using Floats = typename V::Floats;
  const Floats take = V::all(u.take);
  const std::size_t whole = u.elements / V::kLanes * V::kLanes;
  for (std::size_t i = 0; i < whole; i += V::kLanes) {
    const Floats average = V::load(u.average + i);
    const Floats difference = V::subtract(V::load(u.values + i), average);
    V::store(u.average + i, V::add(average, V::multiply(take, difference)));
  }
  return whole;
}

}  // namespace daso::kernels
