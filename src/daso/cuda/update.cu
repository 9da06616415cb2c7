// SPDX-License-Identifier: Apache-2.0
// The steps of optimizers. A group of threads does a chunk of a run at a time.
#include "daso/cuda/threads.cuh"
#include "daso/kernels/norm_factors.h"
#include "daso/kernels/update_steps.h"

namespace daso::cuda {
namespace {

using kernels::Chunk;
using kernels::Run;
using kernels::Runs;
using kernels::Velocity;

template <typename Act>
__device__ void for_chunks(const Runs& runs, const Act& act) {
  for (std::size_t number = blockIdx.x; number < runs.number_of_chunks; number += gridDim.x) {
    const Chunk chunk = runs.chunks[number];
    act(chunk, runs.runs[chunk.run], number);
  }
}

template <Velocity kVelocity, bool kNesterov>
__global__ void __launch_bounds__(kThreads)
    sgd_chunks(const kernels::SgdUpdate u, const bool aligned) {
  for_chunks(u.runs, [&](const Chunk& chunk, const Run& run, std::size_t) {
    const kernels::SgdRun r{.gradients = u.gradients,
                            .parameters = u.parameters,
                            .velocity = u.velocity,
                            .learning_rate = u.learning_rate,
                            .momentum = u.momentum,
                            .weight_decay = static_cast<float>(run.weight_decay)};
    for_chunk(chunk.begin, chunk.elements, aligned, [&](auto vector, std::size_t i) {
      kernels::sgd_at<decltype(vector), kVelocity, kNesterov>(r, i);
    });
  });
}

__global__ void __launch_bounds__(kThreads)
    adamw_chunks(const kernels::AdamwUpdate u, const bool aligned) {
  for_chunks(u.runs, [&](const Chunk& chunk, const Run& run, std::size_t) {
    const kernels::AdamwRun r{
        .gradients = u.gradients,
        .parameters = u.parameters,
        .first = u.first,
        .second = u.second,
        .factors = u.factors,
        .keep = kernels::kept_by_decay<One>(u.learning_rate, run.weight_decay),
        .rate = u.rate};
    for_chunk(chunk.begin, chunk.elements, aligned,
              [&](auto vector, std::size_t i) { kernels::adamw_at<decltype(vector)>(r, i); });
  });
}

// The sums of a chunk are done, and thread 0 has them. The last group of a run to get here adds up
// those of all its chunks, in their order, and has the run's rate. `arrived` is 0 again after that.
template <typename Rate>
__device__ void finish_chunk(const Runs& runs, const Chunk& chunk, std::size_t number,
                             const TwoDoubles& sums, const Rate& rate_by) {
  __shared__ bool last;
  const Run& run = runs.runs[chunk.run];
  auto* const all = reinterpret_cast<double2*>(runs.sums);
  if (threadIdx.x == 0) {
    all[number] = {sums.first, sums.second};
    __threadfence();
    last = atomicAdd(runs.arrived + chunk.run, 1U) + 1 == run.chunks;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  TwoDoubles own;
  for (unsigned i = threadIdx.x; i < run.chunks; i += kThreads) {
    const double2 part = __ldcg(all + run.first_chunk + i);
    own.first += part.x;
    own.second += part.y;
  }
  const TwoDoubles total = group_sums(own);
  if (threadIdx.x != 0) return;
  runs.rates[chunk.run] = rate_by(run, sqrt(total.first), sqrt(total.second));
  runs.arrived[chunk.run] = 0;
}

__global__ void __launch_bounds__(kThreads)
    lars_norms(const kernels::LarsUpdate u, const bool aligned) {
  for_chunks(u.runs, [&](const Chunk& chunk, const Run& run, std::size_t number) {
    if (!run.adapts) return;
    TwoDoubles own;
    for_chunk(chunk.begin, chunk.elements, aligned, [&](auto vector, std::size_t i) {
      using V = decltype(vector);
      const typename V::Floats x = V::load(u.parameters + i);
      own.second = add_squares(own.second, V::load(u.gradients + i));
      own.first = add_squares(own.first, x);
    });
    finish_chunk(
        u.runs, chunk, number, group_sums(own), [&](const Run& whole, double size, double slope) {
          return kernels::lars_rate<One>(u.learning_rate, u.trust, whole.weight_decay, size, slope);
        });
  });
}

__global__ void __launch_bounds__(kThreads)
    lars_chunks(const kernels::LarsUpdate u, const bool aligned) {
  for_chunks(u.runs, [&](const Chunk& chunk, const Run& run, std::size_t) {
    const kernels::LarsRun r{
        .gradients = u.gradients,
        .parameters = u.parameters,
        .velocity = u.velocity,
        .rate = run.adapts ? u.runs.rates[chunk.run] : static_cast<float>(u.learning_rate),
        .momentum = u.momentum,
        .weight_decay = static_cast<float>(run.weight_decay)};
    for_chunk(chunk.begin, chunk.elements, aligned,
              [&](auto vector, std::size_t i) { kernels::lars_at<decltype(vector)>(r, i); });
  });
}

__device__ kernels::LambRun lamb_run(const kernels::LambUpdate& u, const Run& run, float rate) {
  return {.gradients = u.gradients,
          .parameters = u.parameters,
          .first = u.first,
          .second = u.second,
          .factors = u.factors,
          .first_scale = u.first_scale,
          .weight_decay = static_cast<float>(run.weight_decay),
          .rate = rate};
}

__global__ void __launch_bounds__(kThreads)
    lamb_norms(const kernels::LambUpdate u, const bool aligned) {
  for_chunks(u.runs, [&](const Chunk& chunk, const Run& run, std::size_t number) {
    const kernels::LambRun r = lamb_run(u, run, 0);
    TwoDoubles own;
    for_chunk(chunk.begin, chunk.elements, aligned, [&](auto vector, std::size_t i) {
      using V = decltype(vector);
      const typename V::Floats x = V::load(u.parameters + i);
      own.second = add_squares(own.second, kernels::lamb_moments_at<V>(r, x, i));
      own.first = add_squares(own.first, x);
    });
    if (!run.adapts) return;
    finish_chunk(u.runs, chunk, number, group_sums(own),
                 [&](const Run&, double size, double change) {
                   return kernels::rate_by_norms<One>(u.learning_rate, size, change);
                 });
  });
}

__global__ void __launch_bounds__(kThreads)
    lamb_chunks(const kernels::LambUpdate u, const bool aligned) {
  for_chunks(u.runs, [&](const Chunk& chunk, const Run& run, std::size_t) {
    const float rate = run.adapts ? u.runs.rates[chunk.run] : static_cast<float>(u.learning_rate);
    const kernels::LambRun r = lamb_run(u, run, rate);
    for_chunk(chunk.begin, chunk.elements, aligned,
              [&](auto vector, std::size_t i) { kernels::lamb_at<decltype(vector)>(r, i); });
  });
}

__global__ void __launch_bounds__(kThreads)
    ema_elements(const kernels::EmaUpdate u, const std::size_t head) {
  for_elements(u.elements, head,
               [&](auto vector, std::size_t i) { kernels::ema_at<decltype(vector)>(u, i); });
}

template <typename... Pointers>
bool begin_aligned(Pointers... all) {
  return ((reinterpret_cast<std::uintptr_t>(all) % 16 == 0) && ...);
}

unsigned groups_for_chunks(const Runs& runs, const Launch& launch) {
  return groups_for(runs.number_of_chunks, 1, launch);
}

template <Velocity kVelocity, bool kNesterov>
void launch_sgd(const kernels::SgdUpdate& update, const Launch& launch) {
  const bool aligned = begin_aligned(update.gradients, update.parameters, update.velocity);
  sgd_chunks<kVelocity, kNesterov>
      <<<groups_for_chunks(update.runs, launch), kThreads, 0, launch.stream>>>(update, aligned);
}

}  // namespace

void sgd(const kernels::SgdUpdate& update, const Launch& launch) {
  if (update.velocity == nullptr) return launch_sgd<Velocity::kNone, false>(update, launch);
  if (update.first && update.nesterov) return launch_sgd<Velocity::kFirst, true>(update, launch);
  if (update.first) return launch_sgd<Velocity::kFirst, false>(update, launch);
  if (update.nesterov) return launch_sgd<Velocity::kLater, true>(update, launch);
  launch_sgd<Velocity::kLater, false>(update, launch);
}

void lars(const kernels::LarsUpdate& update, const Launch& launch) {
  const bool aligned = begin_aligned(update.gradients, update.parameters, update.velocity);
  const unsigned groups = groups_for_chunks(update.runs, launch);
  lars_norms<<<groups, kThreads, 0, launch.stream>>>(update, aligned);
  lars_chunks<<<groups, kThreads, 0, launch.stream>>>(update, aligned);
}

void adamw(const kernels::AdamwUpdate& update, const Launch& launch) {
  const bool aligned =
      begin_aligned(update.gradients, update.parameters, update.first, update.second);
  adamw_chunks<<<groups_for_chunks(update.runs, launch), kThreads, 0, launch.stream>>>(update,
                                                                                       aligned);
}

void lamb(const kernels::LambUpdate& update, const Launch& launch) {
  const bool aligned =
      begin_aligned(update.gradients, update.parameters, update.first, update.second);
  const unsigned groups = groups_for_chunks(update.runs, launch);
  lamb_norms<<<groups, kThreads, 0, launch.stream>>>(update, aligned);
  lamb_chunks<<<groups, kThreads, 0, launch.stream>>>(update, aligned);
}

void ema(const kernels::EmaUpdate& update, const Launch& launch) {
  ema_elements<<<groups_for(update.elements, 4 * kThreads, launch), kThreads, 0, launch.stream>>>(
      update, elements_before_fours(update.elements, update.values, update.average));
}

}  // namespace daso::cuda
