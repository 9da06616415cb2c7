// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/kernels.h"
#include "daso/kernels/norm_factors.h"
#include "daso/kernels/update_steps.h"
#include "daso/kernels/value_loops.h"

// The loops of update.h, over a vector type V of simd/: run by run, whole vectors, then what is
// left element by element.
namespace daso::kernels {

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled here.

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

template <typename V, Velocity kVelocity, bool kNesterov>
void sgd_vectors(const SgdRun& r, std::size_t elements) {
  for_each_vector<V>(
      elements, [r](auto vector, std::size_t i) __attribute__((always_inline)) {
        sgd_at<decltype(vector), kVelocity, kNesterov>(r, i);
      });
}

template <typename V>
void sgd_loop(const SgdUpdate& u) {
  for (std::size_t n = 0; n < u.runs.number; ++n) {
    const Run& run = u.runs.runs[n];
    const SgdRun r{.gradients = u.gradients + run.begin,
                   .parameters = u.parameters + run.begin,
                   .velocity = u.velocity == nullptr ? nullptr : u.velocity + run.begin,
                   .learning_rate = u.learning_rate,
                   .momentum = u.momentum,
                   .weight_decay = static_cast<float>(run.weight_decay)};
    if (u.velocity == nullptr) {
      sgd_vectors<V, Velocity::kNone, false>(r, run.elements);
    } else if (u.first && u.nesterov) {
      sgd_vectors<V, Velocity::kFirst, true>(r, run.elements);
    } else if (u.first) {
      sgd_vectors<V, Velocity::kFirst, false>(r, run.elements);
    } else if (u.nesterov) {
      sgd_vectors<V, Velocity::kLater, true>(r, run.elements);
    } else {
      sgd_vectors<V, Velocity::kLater, false>(r, run.elements);
    }
  }
}

template <typename V>
void lars_loop(const LarsUpdate& u) {
  for (std::size_t n = 0; n < u.runs.number; ++n) {
    const Run& run = u.runs.runs[n];
    LarsRun r{.gradients = u.gradients + run.begin,
              .parameters = u.parameters + run.begin,
              .velocity = u.velocity + run.begin,
              .rate = static_cast<float>(u.learning_rate),
              .momentum = u.momentum,
              .weight_decay = static_cast<float>(run.weight_decay)};
    if (run.adapts) {
      const TwoSums sums = sums_of_squares<V>(r.parameters, r.gradients, run.elements);
      r.rate = lars_rate<V>(u.learning_rate, u.trust, run.weight_decay, __builtin_sqrt(sums.first),
                            __builtin_sqrt(sums.second));
    }
    for_each_vector<V>(
        run.elements, [r](auto vector, std::size_t i)
                          __attribute__((always_inline)) { lars_at<decltype(vector)>(r, i); });
  }
}

template <typename V>
void adamw_loop(const AdamwUpdate& u) {
  for (std::size_t n = 0; n < u.runs.number; ++n) {
    const Run& run = u.runs.runs[n];
    const AdamwRun r{.gradients = u.gradients + run.begin,
                     .parameters = u.parameters + run.begin,
                     .first = u.first + run.begin,
                     .second = u.second + run.begin,
                     .factors = u.factors,
                     .keep = kept_by_decay<V>(u.learning_rate, run.weight_decay),
                     .rate = u.rate};
    for_each_vector<V>(
        run.elements, [r](auto vector, std::size_t i)
                          __attribute__((always_inline)) { adamw_at<decltype(vector)>(r, i); });
  }
}

// The first pass of LAMB over a run. So many changes stay in the processor's cache until their
// squares are added.
template <typename V>
TwoSums lamb_norms(const LambRun& r, std::size_t elements) {
  constexpr std::size_t kPiece = 1024;
  static_assert(kPiece % kSquareSums == 0);
  alignas(64) float change[kPiece];
  RowOfSums<V> sizes;
  RowOfSums<V> changes;
  std::size_t begin = 0;
  std::size_t whole = 0;
  std::size_t left = 0;
  for (; begin < elements; begin += kPiece) {
    const std::size_t rest = elements - begin;
    const std::size_t piece = rest < kPiece ? rest : kPiece;
    for_each_vector<V>(
        piece, [ =, &change ](auto vector, std::size_t i) __attribute__((always_inline)) {
          using W = decltype(vector);
          const typename W::Floats x = W::load(r.parameters + begin + i);
          W::store(change + i, lamb_moments_at<W>(r, x, begin + i));
        });
    whole = piece / kSquareSums * kSquareSums;
    left = piece - whole;
    for (std::size_t i = 0; i < whole; i += kSquareSums) {
      sizes.add(r.parameters + begin + i);
      changes.add(change + i);
    }
  }
  const float* last = elements == 0 ? r.parameters : r.parameters + (begin - kPiece) + whole;
  return {__builtin_sqrt(sizes.total(last, left)),
          __builtin_sqrt(changes.total(change + whole, left))};
}

template <typename V>
void lamb_loop(const LambUpdate& u) {
  for (std::size_t n = 0; n < u.runs.number; ++n) {
    const Run& run = u.runs.runs[n];
    LambRun r{.gradients = u.gradients + run.begin,
              .parameters = u.parameters + run.begin,
              .first = u.first + run.begin,
              .second = u.second + run.begin,
              .factors = u.factors,
              .first_scale = u.first_scale,
              .weight_decay = static_cast<float>(run.weight_decay),
              .rate = static_cast<float>(u.learning_rate)};
    const TwoSums norms = lamb_norms<V>(r, run.elements);
    if (run.adapts) r.rate = rate_by_norms<V>(u.learning_rate, norms.first, norms.second);
    for_each_vector<V>(
        run.elements, [r](auto vector, std::size_t i)
                          __attribute__((always_inline)) { lamb_at<decltype(vector)>(r, i); });
  }
}

template <typename V>
void ema_loop(const EmaUpdate& u) {
  for_each_vector<V>(
      u.elements, [u](auto vector, std::size_t i)
                      __attribute__((always_inline)) { ema_at<decltype(vector)>(u, i); });
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace daso::kernels
